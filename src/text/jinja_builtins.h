// The functions that templates find ready: filters, tests, methods of strings, lists and dicts, and global functions.
// Each takes the value it works on and arguments as in a Python call. What has no entry here does not exist for a
// template.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace strata::jinja {

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Builtin {
  const char* name;
  Value (*call)(Context& ctx, const Value& self, const Args& args);
};

struct MethodObject : HeapObject {
  Value self;
  const Builtin* method = nullptr;
};

const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_method(const Value& self, std::string_view name);
const Builtin* find_global(std::string_view name);
// Methods that exist in Python but may not be called from templates (dict.update ...): reading them gives undefined.
bool is_forbidden_method(const Value& self, std::string_view name);

// self.name and self[key] as jinja2 reads them: methods before keys for the first, keys before methods for the second.
// Gives undefined (with a message) for what is not there; does not know loops.
Value get_attribute(Context& ctx, const Value& self, std::string_view name);
Value get_item(Context& ctx, const Value& self, const Value& key);

// Sorts arguments into the places of a signature; those not given stay Kind::missing. False (and failed) when they do
// not fit.
bool bind_arguments(Context& ctx, std::string_view function, const Args& args, const char* const* names, size_t n,
                    size_t n_required, Value* out);
template <size_t N>
bool bind_args(Context& ctx, std::string_view function, const Args& args, const std::array<const char*, N>& names,
               size_t n_required, std::array<Value, N>& out) {
  out.fill(Value::missing());
  return bind_arguments(ctx, function, args, names.data(), N, n_required, out.data());
}
bool no_arguments(Context& ctx, std::string_view function, const Args& args);

// Reads an argument as a whole number; `fallback` when it is missing or None.
int64_t int_argument(Context& ctx, const Value& v, int64_t fallback);
bool flag_argument(const Value& v, bool fallback);

// Shared between filters, methods and operators.
Value strip_text(Context& ctx, const Value& text, const Value& characters, bool left,
                 bool right);  // characters: missing for space
Value replace_text(Context& ctx, const Value& text, const Value& old, const Value& with,
                   int64_t count);  // count < 0: all
enum class Case { upper, lower, title_words, capital };
Value change_case(Context& ctx, const Value& text, Case to);
Value join_items(Context& ctx, const List& items, const Value& separator, bool only_strings);
Value percent_format(Context& ctx, const Value& format, const Value& arguments);  // "..." % arguments
List* lines_of(Context& ctx, const Value& text, bool keep_ends);

}  // namespace strata::jinja
