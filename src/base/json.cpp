#include "base/json.h"

namespace strata {

Result<Json> parse_json(std::string_view text, const std::string& what, int max_depth) {
  // Depth is checked on the raw bytes first: a deep tree also recurses when it is printed or freed.
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > max_depth)
        return Status(Code::invalid_argument,
                      fmt::format("{}: nested deeper than {} levels at byte {}", what, max_depth, i));
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error& e) {
    return Status(Code::invalid_argument, fmt::format("{}: not valid JSON at byte {}", what, e.byte),
                  "check the syntax there");
  } catch (const Json::out_of_range&) {
    return Status(Code::invalid_argument, what + ": a number is too large for 64-bit floating point",
                  "write a smaller number");
  }
}

namespace {

void append(const Json& v, std::string& out) {
  if (v.is_object()) {
    out += '{';
    bool first = true;
    for (const auto& [key, item] : v.items()) {
      if (!first) out += ", ";
      first = false;
      out += Json(key).dump(-1, ' ', false, Json::error_handler_t::replace);
      out += ": ";
      append(item, out);
    }
    out += '}';
  } else if (v.is_array()) {
    out += '[';
    bool first = true;
    for (const auto& item : v) {
      if (!first) out += ", ";
      first = false;
      append(item, out);
    }
    out += ']';
  } else {
    out += v.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

}  // namespace

std::string dump_python_style(const Json& value) {
  std::string out;
  append(value, out);
  return out;
}

}  // namespace strata
