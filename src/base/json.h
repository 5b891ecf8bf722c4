// The one door to the JSON library outside the server: ordered objects (key order is data in prompts), bounded depth.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace strata {

using Json = nlohmann::ordered_json;

// Parses one document. Fails on a syntax error (with byte offset) and on nesting deeper than max_depth. what: names the
// source in errors.
Result<Json> parse_json(std::string_view text, const std::string& what, int max_depth = 100);

// One line like Python's json.dumps(ensure_ascii=False): ", " and ": " between items, key order kept; invalid UTF-8
// becomes U+FFFD.
std::string dump_python_style(const Json& value);

}  // namespace strata
