// Filters that make text or a single value: value | filter(arguments).
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "text/jinja_builtins.h"
#include "text/jinja_filter_tables.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_unicode.h"

namespace strata::jinja {
namespace {

Value default_value(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 2> a;
  if (!bind_args(ctx, "default", args, std::array{"default_value", "boolean"}, 0, a)) return {};
  const bool absent = self.is(Kind::undefined) || (flag_argument(a[1], false) && !truthy(self));
  if (!absent) return self;
  return a[0].is(Kind::missing) ? ctx.string("", true) : a[0];
}

Value length(Context& ctx, const Value& self, const Args& args) {
  return no_arguments(ctx, "length", args) ? Value::of(length_of(ctx, self)) : Value();
}

template <Case kTo>
Value cased(Context& ctx, const Value& self, const Args& args) {
  if (!no_arguments(ctx, "the filter", args)) return {};
  const Value text = to_str(ctx, self);
  return ctx.failed() ? Value() : change_case(ctx, text, kTo);
}

// Unlike the method, words start only behind white space, '-', and opening brackets.
Value title(Context& ctx, const Value& self, const Args& args) {
  if (!no_arguments(ctx, "title", args)) return {};
  const Value text = to_str(ctx, self);
  if (ctx.failed() || !ctx.spend_bytes(text.length * 8ull) || !ctx.reserve(text.length)) return {};
  const std::string_view bytes = text.view();
  MarkedText out;
  std::string piece;
  bool in_word = false;
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint c = code_point_at(bytes, at);
    piece.clear();
    in_word ? append_lower(piece, c.value) : append_upper(piece, c.value);
    in_word = !is_space(c.value) && std::u32string_view(U"-({[<").find(c.value) == std::u32string_view::npos;
    out.append(piece, text.text->text.trusted_at(at));
    at += c.bytes;
  }
  return ctx.string(std::move(out));
}

Value trim(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 1> a;
  if (!bind_args(ctx, "trim", args, std::array{"chars"}, 0, a)) return {};
  const Value text = to_str(ctx, self);
  if (a[0].is(Kind::none)) a[0] = Value::missing();
  if (!a[0].is(Kind::missing)) a[0] = to_str(ctx, a[0]);
  return ctx.failed() ? Value() : strip_text(ctx, text, a[0], true, true);
}

Value replace(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 3> a;
  if (!bind_args(ctx, "replace", args, std::array{"old", "new", "count"}, 2, a)) return {};
  const Value text = to_str(ctx, self);
  const Value old = to_str(ctx, a[0]);
  const Value with = to_str(ctx, a[1]);
  const int64_t count = int_argument(ctx, a[2], -1);
  return ctx.failed() ? Value() : replace_text(ctx, text, old, with, count);
}

Value string(Context& ctx, const Value& self, const Args& args) {
  return no_arguments(ctx, "string", args) ? to_str(ctx, self) : Value();
}

Value escape(Context& ctx, const Value& self, const Args& args) {
  if (!no_arguments(ctx, "escape", args)) return {};
  static constexpr std::pair<const char*, const char*> kEscapes[] = {
      {"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {"\"", "&#34;"}};
  Value text = to_str(ctx, self);
  for (const auto& [from, to] : kEscapes) {
    if (ctx.failed()) return {};
    text = replace_text(ctx, text, ctx.string(from, false), ctx.string(to, false), -1);
  }
  return text;
}

Value safe(Context& ctx, const Value& self, const Args& args) {
  return string(ctx, self, args);
}

Value indent(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 3> a;
  if (!bind_args(ctx, "indent", args, std::array{"width", "first", "blank"}, 0, a)) return {};
  const Value text = arithmetic(ctx, Op::add, self, ctx.string("\n", true));  // fails for what is not a string
  Value margin = a[0];
  if (!margin.is(Kind::string)) {
    const int64_t width = int_argument(ctx, a[0], 4);
    if (ctx.failed() || !ctx.reserve(static_cast<size_t>(std::max<int64_t>(width, 0)))) return {};
    margin = ctx.string(std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' '), true);
  }
  if (ctx.failed()) return {};
  // As in jinja2 the text is read with one more line end, so a last line that ends keeps its end.
  const List* lines = lines_of(ctx, text, false);
  MarkedText out;
  for (size_t i = 0; i < lines->items.size() && !ctx.failed(); ++i) {
    const Value& line = lines->items[i];
    if (!ctx.reserve(line.length + margin.length + 1)) return {};
    if (i > 0) out.append("\n", true);
    if (i == 0 ? flag_argument(a[1], false) : (line.length > 0 || flag_argument(a[2], false)))
      out.append(margin.text->text, 0, margin.length);
    out.append(line.text->text, 0, line.length);
  }
  return ctx.string(std::move(out));
}

// Reads text as Python's int(text, base): white space around, a sign, '_' between digits.
bool read_int(std::string_view text, int64_t base, int64_t& out) {
  std::string digits;
  while (!text.empty() && is_space(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && is_space(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  const bool negative = !text.empty() && text[0] == '-';
  if (negative || (!text.empty() && text[0] == '+')) text.remove_prefix(1);
  if (text.size() > 2 && text[0] == '0') {
    const char mark = static_cast<char>(text[1] | 0x20);
    if ((base == 16 && mark == 'x') || (base == 8 && mark == 'o') || (base == 2 && mark == 'b')) text.remove_prefix(2);
  }
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_')
      digits += text[i];
    else if (i == 0 || i + 1 == text.size() || text[i + 1] == '_')
      return false;
  }
  if (digits.empty() || digits[0] == '-' || base < 2 || base > 36) return false;
  if (negative) digits.insert(0, "-");
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), out, static_cast<int>(base));
  return read.ec == std::errc() && read.ptr == digits.data() + digits.size();
}

bool read_real(std::string_view text, double& out) {
  while (!text.empty() && is_space(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && is_space(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  if (text.empty() || text[0] == '+') return false;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), out);
  if (read.ec == std::errc::result_out_of_range) out = 0;
  return read.ec != std::errc::invalid_argument && read.ptr == text.data() + text.size();
}

Value to_int(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 2> a;
  if (!bind_args(ctx, "int", args, std::array{"default", "base"}, 0, a)) return {};
  const int64_t base = int_argument(ctx, a[1], 10);
  const Value fallback = a[0].is(Kind::missing) ? Value::of(int64_t{0}) : a[0];
  double real = 0;
  if (self.is(Kind::big_integer)) return self;
  if (self.is_integral()) return Value::of(self.as_int());
  if (self.is(Kind::string)) {
    int64_t n = 0;
    if (read_int(self.view(), base, n)) return Value::of(n);
    if (!read_real(self.view(), real)) return fallback;
  } else if (self.is(Kind::real)) {
    real = self.real;
  } else if (self.is(Kind::undefined) && self.undefined != nullptr) {
    return ctx.fail(self.undefined->message);
  } else {
    return fallback;
  }
  return std::fabs(real) < 9.2e18 ? Value::of(static_cast<int64_t>(real)) : fallback;
}

Value to_real(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 1> a;
  if (!bind_args(ctx, "float", args, std::array{"default"}, 0, a)) return {};
  double real = 0;
  if (self.is_number()) return Value::of(as_real(self));
  if (self.is(Kind::undefined) && self.undefined != nullptr) return ctx.fail(self.undefined->message);
  if (self.is(Kind::string) && read_real(self.view(), real)) return Value::of(real);
  return a[0].is(Kind::missing) ? Value::of(0.0) : a[0];
}

Value absolute(Context& ctx, const Value& self, const Args& args) {
  if (!no_arguments(ctx, "abs", args)) return {};
  if (self.is(Kind::real)) return Value::of(std::fabs(self.real));
  if (self.is(Kind::big_integer)) return self;
  if (!self.is_integral()) return ctx.fail(fmt::format("bad operand type for abs(): '{}'", type_name(self)));
  if (self.as_int() == INT64_MIN) return ctx.fail("integer overflow");
  return Value::of(std::abs(self.as_int()));
}

Value round(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 2> a;
  if (!bind_args(ctx, "round", args, std::array{"precision", "method"}, 0, a)) return {};
  const int64_t precision = int_argument(ctx, a[0], 0);
  const std::string method = a[1].is(Kind::string) ? std::string(a[1].view()) : "common";
  if (method != "common" && method != "ceil" && method != "floor")
    return ctx.fail("method must be common, ceil or floor");
  if (ctx.failed()) return {};
  if (!self.is_number()) return ctx.fail(fmt::format("type {} has no rounding", type_name(self)));
  if (method != "common") {
    const double scale = std::pow(10.0, static_cast<double>(precision));
    const double scaled = as_real(self) * scale;
    return Value::of((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
  }
  if (!self.is(Kind::real) && precision >= 0) return self.is(Kind::boolean) ? Value::of(self.as_int()) : self;
  if (precision < 0) {
    const double scale = std::pow(10.0, static_cast<double>(-precision));
    const double rounded = std::nearbyint(as_real(self) / scale) * scale;
    return self.is(Kind::real) ? Value::of(rounded) : Value::of(static_cast<int64_t>(rounded));
  }
  if (precision > 300 || !std::isfinite(self.real)) return self;
  // Decimal digits of the exact value, ties to even: what the C library prints.
  return Value::of(std::strtod(fmt::format("{:.{}f}", self.real, precision).c_str(), nullptr));
}

Value tojson(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 4> a;
  if (!bind_args(ctx, "tojson", args, std::array{"ensure_ascii", "indent", "separators", "sort_keys"}, 0, a)) return {};
  JsonStyle style;
  style.ascii = flag_argument(a[0], false);
  style.sort_keys = flag_argument(a[3], false);
  if (a[1].is(Kind::string)) {
    style.lines = true;
    style.indent = a[1].view();
  } else if (!a[1].is(Kind::missing) && !a[1].is(Kind::none)) {
    const int64_t width = int_argument(ctx, a[1], 0);
    if (width > 1000) return ctx.fail("indent of more than 1000");
    style.lines = true;
    style.indent.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  if (style.lines) style.item_separator = ",";
  if (a[2].is(Kind::list)) {
    const auto& parts = a[2].list->items;
    if (parts.size() != 2 || !parts[0].is(Kind::string) || !parts[1].is(Kind::string))
      return ctx.fail("separators must be two texts");
    style.item_separator = parts[0].view();
    style.key_separator = parts[1].view();
  }
  return ctx.failed() ? Value() : to_json(ctx, self, style);
}

Value format(Context& ctx, const Value& self, const Args& args) {
  const Value text = to_str(ctx, self);
  if (ctx.failed()) return {};
  if (!args.named.empty()) {
    Dict* values = ctx.dict();
    for (const auto& [name, value] : args.named) ctx.set(values, ctx.string(name, true), value);
    return percent_format(ctx, text, dict_value(values));
  }
  List* values = ctx.list(ListKind::tuple);
  values->items = args.positional;
  return percent_format(ctx, text, list_value(values));
}

Value attribute(Context& ctx, const Value& self, const Args& args) {
  std::array<Value, 1> a;
  if (!bind_args(ctx, "attr", args, std::array{"name"}, 1, a)) return {};
  const Value name = to_str(ctx, a[0]);
  if (ctx.failed()) return {};
  if (self.is(Kind::dict) && find_method(self, name.view()) == nullptr)
    return ctx.undefined(fmt::format("'dict object' has no attribute '{}'", name.view()));
  return get_attribute(ctx, self, name.view());
}

const Builtin kTextFilters[] = {
    {"default", default_value},
    {"d", default_value},
    {"length", length},
    {"count", length},
    {"upper", cased<Case::upper>},
    {"lower", cased<Case::lower>},
    {"capitalize", cased<Case::capital>},
    {"title", title},
    {"trim", trim},
    {"replace", replace},
    {"string", string},
    {"escape", escape},
    {"e", escape},
    {"safe", safe},
    {"indent", indent},
    {"int", to_int},
    {"float", to_real},
    {"abs", absolute},
    {"round", round},
    {"tojson", tojson},
    {"format", format},
    {"attr", attribute},
};

}  // namespace

const Builtin* find_text_filter(std::string_view name) {
  for (const Builtin& filter : kTextFilters)
    if (name == filter.name) return &filter;
  return nullptr;
}

const Builtin* find_filter(std::string_view name) {
  const Builtin* found = find_text_filter(name);
  return found != nullptr ? found : find_sequence_filter(name);
}

}  // namespace strata::jinja
