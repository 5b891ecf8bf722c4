// How values look as text: Python's str and repr, and JSON as json.dumps writes it.
// str keeps the marks of a string; a list, a dict or JSON is trusted only when every string in it is.
#pragma once

#include <string>

#include "text/jinja_value.h"

namespace strata::jinja {

std::string real_text(double v);  // Python's repr of a float
void append_str(Context& ctx, MarkedText& out, const Value& v);
Value to_str(Context& ctx, const Value& v);
Value repr(Context& ctx, const Value& v);

struct JsonStyle {
  bool ascii = false;  // escape everything beyond ASCII
  bool sort_keys = false;
  bool lines = false;  // one item a line, indented by `indent` per level
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
Value to_json(Context& ctx, const Value& v, const JsonStyle& style);

}  // namespace strata::jinja
