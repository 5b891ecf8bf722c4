#include "text/jinja_print.h"

#include <charconv>
#include <cmath>

#include "text/jinja_unicode.h"

namespace strata::jinja {
namespace {

// Text under construction that is charged as it grows, so that a small value cannot unfold into a huge text.
class Writer {
 public:
  explicit Writer(Context& ctx) : ctx_(ctx) {}
  void add(std::string_view bytes) {
    if (ctx_.reserve(bytes.size())) out_ += bytes;
  }
  void note(const Value& text) { trusted_ = trusted_ && text.text->text.all_trusted(0, text.length); }
  bool enter(int depth) {
    if (depth > ctx_.limits().depth)
      ctx_.fail(fmt::format("values nested deeper than {} levels", ctx_.limits().depth), Code::out_of_range);
    return ctx_.spend(1);
  }
  Context& ctx() { return ctx_; }
  Value finish() { return ctx_.failed() ? Value() : ctx_.string(out_, trusted_); }

 private:
  Context& ctx_;
  std::string out_;
  bool trusted_ = true;
};

// Bytes from `at` on that are printed as they are in quoted text.
size_t plain_run(std::string_view text, size_t at, char quote) {
  size_t end = at;
  while (end < text.size() && text[end] >= ' ' && text[end] != 0x7F && text[end] != quote && text[end] != '\\') ++end;
  return end - at;
}

void write_repr(Writer& out, const Value& v, int depth);

void write_quoted(Writer& out, const Value& v) {
  const std::string_view text = v.view();
  out.note(v);
  out.ctx().spend_bytes(text.size());
  const char quote = text.find('\'') != kNotFound && text.find('"') == kNotFound ? '"' : '\'';
  std::string buffer(1, quote);
  for (size_t at = 0; at < text.size();) {
    const size_t plain = plain_run(text, at, quote);
    buffer += text.substr(at, plain);
    at += plain;
    if (at == text.size()) break;
    const CodePoint c = code_point_at(text, at);
    if (c.value == static_cast<unsigned char>(quote) || c.value == '\\')
      buffer += fmt::format("\\{}", static_cast<char>(c.value));
    else if (c.value == '\n')
      buffer += "\\n";
    else if (c.value == '\r')
      buffer += "\\r";
    else if (c.value == '\t')
      buffer += "\\t";
    else if (is_printable(c.value))
      buffer += text.substr(at, c.bytes);
    else if (c.value < 0x100)
      buffer += fmt::format("\\x{:02x}", static_cast<uint32_t>(c.value));
    else if (c.value < 0x10000)
      buffer += fmt::format("\\u{:04x}", static_cast<uint32_t>(c.value));
    else
      buffer += fmt::format("\\U{:08x}", static_cast<uint32_t>(c.value));
    at += c.bytes;
  }
  buffer += quote;
  out.add(buffer);
}

void write_list_repr(Writer& out, const List& list, int depth) {
  const bool tuple = list.kind == ListKind::tuple;
  out.add(tuple ? "(" : "[");
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.add(", ");
    write_repr(out, list.items[i], depth + 1);
  }
  if (tuple && list.items.size() == 1) out.add(",");
  out.add(tuple ? ")" : "]");
}

void write_dict_repr(Writer& out, const Dict& dict, int depth) {
  out.add("{");
  bool first = true;
  for (const Dict::Entry& entry : dict.entries()) {
    if (!first) out.add(", ");
    first = false;
    write_repr(out, entry.key, depth + 1);
    out.add(": ");
    write_repr(out, entry.value, depth + 1);
  }
  out.add("}");
}

void write_repr(Writer& out, const Value& v, int depth) {
  if (!out.enter(depth)) return;
  switch (v.kind) {
    case Kind::missing:
    case Kind::undefined:
      return out.add("Undefined");
    case Kind::none:
      return out.add("None");
    case Kind::boolean:
      return out.add(v.boolean ? "True" : "False");
    case Kind::integer:
      return out.add(std::to_string(v.integer));
    case Kind::big_integer:
      return out.add(std::to_string(v.big));
    case Kind::real:
      return out.add(real_text(v.real));
    case Kind::string:
      return write_quoted(out, v);
    case Kind::list:
      return write_list_repr(out, *v.list, depth);
    case Kind::dict:
      return write_dict_repr(out, *v.dict, depth);
    case Kind::name_space:
      out.add("<Namespace ");
      write_dict_repr(out, *v.dict, depth);
      return out.add(">");
    default:
      return out.add(fmt::format("<{}>", type_name(v)));
  }
}

void write_json(Writer& out, const Value& v, const JsonStyle& style, int depth);

void write_json_string(Writer& out, const Value& v, bool ascii) {
  const std::string_view text = v.view();
  out.note(v);
  out.ctx().spend_bytes(text.size());
  std::string buffer = "\"";
  for (size_t at = 0; at < text.size();) {
    const size_t plain = plain_run(text, at, '"');
    buffer += text.substr(at, plain);
    at += plain;
    if (at == text.size()) break;
    const CodePoint c = code_point_at(text, at);
    const auto number = static_cast<uint32_t>(c.value);
    if (c.value == '"' || c.value == '\\')
      buffer += fmt::format("\\{}", static_cast<char>(c.value));
    else if (c.value == '\n')
      buffer += "\\n";
    else if (c.value == '\r')
      buffer += "\\r";
    else if (c.value == '\t')
      buffer += "\\t";
    else if (c.value == '\b')
      buffer += "\\b";
    else if (c.value == '\f')
      buffer += "\\f";
    else if (number < 0x20 || (ascii && number >= 0x7F && number < 0x10000))
      buffer += fmt::format("\\u{:04x}", number);
    else if (ascii && number >= 0x10000)
      buffer +=
          fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((number - 0x10000) >> 10), 0xDC00 + ((number - 0x10000) & 0x3FF));
    else
      buffer += text.substr(at, c.bytes);
    at += c.bytes;
  }
  buffer += '"';
  out.add(buffer);
}

void write_json_number(Writer& out, const Value& v) {
  if (v.is(Kind::boolean)) return out.add(v.boolean ? "true" : "false");
  if (v.is(Kind::integer)) return out.add(std::to_string(v.integer));
  if (v.is(Kind::big_integer)) return out.add(std::to_string(v.big));
  if (std::isnan(v.real)) return out.add("NaN");
  if (std::isinf(v.real)) return out.add(v.real > 0 ? "Infinity" : "-Infinity");
  out.add(real_text(v.real));
}

void new_line(Writer& out, const JsonStyle& style, int depth) {
  if (!style.lines) return;
  out.add("\n");
  for (int i = 0; i < depth; ++i) out.add(style.indent);
}

void write_json_list(Writer& out, const List& list, const JsonStyle& style, int depth) {
  if (list.items.empty()) return out.add("[]");
  out.add("[");
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.add(style.item_separator);
    new_line(out, style, depth + 1);
    write_json(out, list.items[i], style, depth + 1);
  }
  new_line(out, style, depth);
  out.add("]");
}

void write_json_key(Writer& out, const Value& key, const JsonStyle& style) {
  if (key.is(Kind::string)) return write_json_string(out, key, style.ascii);
  if (!key.is_number() && !key.is(Kind::none)) {
    out.ctx().fail(fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key)));
    return;
  }
  out.add("\"");
  key.is(Kind::none) ? out.add("null") : write_json_number(out, key);
  out.add("\"");
}

void write_json_dict(Writer& out, const Dict& dict, const JsonStyle& style, int depth) {
  const auto& entries = dict.entries();
  if (entries.empty()) return out.add("{}");
  std::vector<size_t> order;
  if (style.sort_keys) {
    std::vector<Value> keys;
    for (const Dict::Entry& entry : entries) keys.push_back(entry.key);
    order = sorted_order(out.ctx(), keys, false);
  }
  out.add("{");
  for (size_t i = 0; i < entries.size(); ++i) {
    const Dict::Entry& entry = entries[style.sort_keys ? order[i] : i];
    if (i > 0) out.add(style.item_separator);
    new_line(out, style, depth + 1);
    write_json_key(out, entry.key, style);
    out.add(style.key_separator);
    write_json(out, entry.value, style, depth + 1);
  }
  new_line(out, style, depth);
  out.add("}");
}

void write_json(Writer& out, const Value& v, const JsonStyle& style, int depth) {
  if (!out.enter(depth)) return;
  if (v.is(Kind::none)) return out.add("null");
  if (v.is_number()) return write_json_number(out, v);
  if (v.is(Kind::string)) return write_json_string(out, v, style.ascii);
  if (v.is(Kind::dict)) return write_json_dict(out, *v.dict, style, depth);
  if (v.is(Kind::list) && (v.list->kind == ListKind::list || v.list->kind == ListKind::tuple))
    return write_json_list(out, *v.list, style, depth);
  if (v.is(Kind::undefined) && v.undefined != nullptr)
    out.ctx().fail(fmt::format("tojson: {}", v.undefined->message));
  else
    out.ctx().fail(fmt::format("Object of type {} is not JSON serializable", type_name(v)));
}

}  // namespace

std::string real_text(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  const int exponent = std::stoi(std::string(text.substr(e + 1)));
  if (exponent < -4 || exponent >= 16) return std::string(text);
  // Shortest digits without an exponent; whole numbers keep one decimal.
  const std::string sign = text[0] == '-' ? "-" : "";
  std::string digits;
  for (const char c : text.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

void append_str(Context& ctx, MarkedText& out, const Value& v) {
  if (v.is(Kind::undefined)) return;
  const Value text = to_str(ctx, v);
  if (!ctx.failed()) out.append(text.text->text, 0, text.length);
}

Value to_str(Context& ctx, const Value& v) {
  if (v.is(Kind::string)) return v;
  return v.is(Kind::undefined) ? ctx.string("", true) : repr(ctx, v);
}

Value repr(Context& ctx, const Value& v) {
  Writer out(ctx);
  write_repr(out, v, 0);
  return out.finish();
}

Value to_json(Context& ctx, const Value& v, const JsonStyle& style) {
  Writer out(ctx);
  write_json(out, v, style, 0);
  return out.finish();
}

}  // namespace strata::jinja
