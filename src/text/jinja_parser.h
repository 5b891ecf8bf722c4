// Template source to its parsed form, with jinja2's grammar (loop controls included; no inheritance, no includes).
#pragma once

#include <string_view>

#include "text/jinja_ast.h"

namespace strata::jinja {

// Fails with "NAME line N: cause": corrupt for bad syntax, unsupported for tags this engine does not have.
Result<Template> parse_template(std::string_view source, std::string_view name, const Limits& limits);

}  // namespace strata::jinja
