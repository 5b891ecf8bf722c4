// Work on strings that filters and methods share. Results keep the mark of every byte; what a call inserts keeps its
// own.
#include <algorithm>
#include <cmath>

#include "text/jinja_builtins.h"
#include "text/jinja_print.h"
#include "text/jinja_unicode.h"

namespace strata::jinja {
namespace {

bool in_set(std::string_view text, CodePoint c, size_t at, const Value& characters) {
  if (characters.is(Kind::missing)) return is_space(c.value);
  return characters.view().find(text.substr(at, c.bytes)) != kNotFound;
}

// One "%..." of a format: flags, width, precision and the letter.
struct Conversion {
  bool left = false, zero = false, plus = false, space = false;
  size_t width = 0;
  int precision = -1;
  char letter = ' ';
};

// Reads the conversion that starts behind the '%' at `at`; false when it is cut off or absurd.
bool read_conversion(std::string_view format, size_t& at, Conversion& c) {
  for (; at < format.size(); ++at) {
    if (format[at] == '-')
      c.left = true;
    else if (format[at] == '0')
      c.zero = true;
    else if (format[at] == '+')
      c.plus = true;
    else if (format[at] == ' ')
      c.space = true;
    else
      break;
  }
  const auto digit = [&] { return at < format.size() && format[at] >= '0' && format[at] <= '9'; };
  for (; digit() && c.width < 10000; ++at) c.width = c.width * 10 + static_cast<size_t>(format[at] - '0');
  if (at < format.size() && format[at] == '.')
    for (++at, c.precision = 0; digit() && c.precision < 1000; ++at)
      c.precision = c.precision * 10 + (format[at] - '0');
  if (at >= format.size() || c.width >= 10000 || c.precision >= 1000) return false;
  c.letter = format[at++];
  return true;
}

std::string format_number(Context& ctx, const Conversion& c, const Value& v) {
  if (!v.is_number()) {
    ctx.fail(fmt::format("%{} format: a real number is required, not {}", c.letter, type_name(v)));
    return {};
  }
  std::string out;
  const double real = as_real(v);
  const bool integral = std::string_view("dixXo").find(c.letter) != kNotFound;
  if (integral) {
    if (v.is(Kind::real) && (c.letter != 'd' && c.letter != 'i'))
      ctx.fail(fmt::format("%{} format: an integer is required", c.letter));
    if (v.is(Kind::big_integer) || !(std::fabs(real) < 9.2e18)) ctx.fail("the number does not fit in 64 bits");
    if (ctx.failed()) return {};
    const int64_t n = v.is(Kind::real) ? static_cast<int64_t>(v.real) : v.as_int();
    const uint64_t size = n < 0 ? 0 - static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
    out = c.letter == 'x' ? fmt::format("{:x}", size)
                          : (c.letter == 'X' ? fmt::format("{:X}", size)
                                             : (c.letter == 'o' ? fmt::format("{:o}", size) : std::to_string(size)));
    if (c.precision > static_cast<int>(out.size())) out.insert(0, static_cast<size_t>(c.precision) - out.size(), '0');
    if (n < 0) out.insert(0, "-");
  } else {
    const int precision = c.precision < 0 ? 6 : c.precision;
    const std::string form = fmt::format("{{:.{}{}}}", precision, c.letter);
    out = fmt::format(fmt::runtime(form), real);
  }
  if (out[0] != '-' && (c.plus || c.space)) out.insert(0, c.plus ? "+" : " ");
  if (c.zero && !c.left && out.size() < c.width) {
    const size_t sign = out[0] == '-' || out[0] == '+' || out[0] == ' ' ? 1 : 0;
    out.insert(sign, c.width - out.size(), '0');
  }
  return out;
}

}  // namespace

Value strip_text(Context& ctx, const Value& text, const Value& characters, bool left, bool right) {
  const std::string_view bytes = text.view();
  if (!ctx.spend_bytes(bytes.size())) return {};
  size_t begin = 0, end = bytes.size();
  const size_t set_bytes = characters.is(Kind::missing) ? 0 : characters.length;
  while (left && begin < end && ctx.spend_bytes(set_bytes)) {
    const CodePoint c = code_point_at(bytes, begin);
    if (!in_set(bytes, c, begin, characters)) break;
    begin += c.bytes;
  }
  while (right && end > begin && ctx.spend_bytes(set_bytes)) {
    const size_t start = code_point_start(bytes, end);
    if (!in_set(bytes, code_point_at(bytes, start), start, characters)) break;
    end = start;
  }
  return ctx.substring(text, begin, end);
}

Value replace_text(Context& ctx, const Value& text, const Value& old, const Value& with, int64_t count) {
  if (!ctx.spend_bytes(text.length)) return {};
  const std::string_view bytes = text.view();
  MarkedText out;
  size_t at = 0;
  for (int64_t done = 0; count < 0 || done < count; ++done) {
    // An empty text is found before every character and at the end.
    size_t found = old.length > 0 ? find_text(bytes, old.view(), at) : at;
    if (old.length == 0 && done > 0) {
      if (at >= bytes.size()) break;
      found = at + code_point_at(bytes, at).bytes;
    }
    if (found == kNotFound) break;
    if (!ctx.spend(1) || !ctx.reserve(found - at + with.length)) return {};
    out.append(text.text->text, at, found);
    out.append(with.text->text, 0, with.length);
    at = found + old.length;
  }
  if (!ctx.reserve(bytes.size() - at)) return {};
  out.append(text.text->text, at, bytes.size());
  return ctx.string(std::move(out));
}

Value change_case(Context& ctx, const Value& text, Case to) {
  if (!ctx.spend_bytes(text.length * 8ull) || !ctx.reserve(text.length)) return {};
  const std::string_view bytes = text.view();
  MarkedText out;
  std::string piece;
  bool in_word = false;
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint c = code_point_at(bytes, at);
    piece.clear();
    if (to == Case::upper)
      append_upper(piece, c.value);
    else if (to == Case::lower || in_word)
      append_lower(piece, c.value);
    else
      append_title(piece, c.value);
    in_word = to == Case::capital || (is_letter(c.value) && (is_upper(c.value) || is_lower(c.value)));
    out.append(piece, text.text->text.trusted_at(at));
    at += c.bytes;
  }
  return ctx.string(std::move(out));
}

Value join_items(Context& ctx, const List& items, const Value& separator, bool only_strings) {
  MarkedText out;
  for (size_t i = 0; i < items.items.size(); ++i) {
    const Value& item = items.items[i];
    if (only_strings && !item.is(Kind::string))
      return ctx.fail(fmt::format("sequence item {}: expected str instance, {} found", i, type_name(item)));
    const Value text = to_str(ctx, item);
    if (!ctx.spend(1) || !ctx.reserve(text.length + separator.length)) return {};
    if (i > 0) out.append(separator.text->text, 0, separator.length);
    out.append(text.text->text, 0, text.length);
  }
  return ctx.string(std::move(out));
}

Value percent_format(Context& ctx, const Value& format, const Value& arguments) {
  const std::string_view bytes = format.view();
  const bool many = arguments.is(Kind::list) && arguments.list->kind == ListKind::tuple;
  const size_t n = many ? arguments.list->items.size() : 1;
  size_t used = 0;
  MarkedText out;
  for (size_t at = 0; at < bytes.size();) {
    const size_t percent = std::min(bytes.find('%', at), bytes.size());
    if (!ctx.spend(1) || !ctx.reserve(percent - at)) return {};
    out.append(format.text->text, at, percent);
    if (percent == bytes.size()) break;
    at = percent + 1;
    Value v = arguments;
    if (at < bytes.size() && bytes[at] == '(') {
      const size_t close = bytes.find(')', at);
      if (!arguments.is(Kind::dict) || close == kNotFound) return ctx.fail("format requires a mapping");
      const Value* found = arguments.dict->find(bytes.substr(at + 1, close - at - 1));
      if (found == nullptr)
        return ctx.fail(fmt::format("format has no value for '{}'", bytes.substr(at + 1, close - at - 1)));
      v = *found;
      used = n;
      at = close + 1;
    } else if (at < bytes.size() && bytes[at] != '%') {
      if (used >= n) return ctx.fail("not enough arguments for format string");
      if (many) v = arguments.list->items[used];
      ++used;
    }
    Conversion c;
    if (!read_conversion(bytes, at, c)) return ctx.fail("incomplete format");
    MarkedText piece;
    if (c.letter == '%') {
      piece.append("%", true);
    } else if (c.letter == 's' || c.letter == 'r') {
      const Value text = c.letter == 's' ? to_str(ctx, v) : repr(ctx, v);
      if (ctx.failed()) return {};
      const size_t end =
          c.precision < 0 ? text.length : offset_of_code_point(text.view(), static_cast<size_t>(c.precision));
      piece.append(text.text->text, 0, end);
    } else if (std::string_view("dixXoeEfFgG").find(c.letter) != kNotFound) {
      piece.append(format_number(ctx, c, v), true);
    } else {
      return ctx.fail(fmt::format("unsupported format character '{}'", c.letter));
    }
    const size_t shown = count_code_points(piece.bytes());
    const std::string pad(shown < c.width ? c.width - shown : 0, ' ');
    if (!ctx.reserve(piece.size() + pad.size())) return {};
    if (!c.left) out.append(pad, true);
    out.append(piece, 0, piece.size());
    if (c.left) out.append(pad, true);
  }
  const bool may_be_left =
      arguments.is(Kind::dict) || arguments.is(Kind::undefined) || (arguments.is(Kind::list) && !many);
  if (used < n && !may_be_left) return ctx.fail("not all arguments converted during string formatting");
  return ctx.string(std::move(out));
}

List* lines_of(Context& ctx, const Value& text, bool keep_ends) {
  List* out = ctx.list();
  const std::string_view bytes = text.view();
  ctx.spend_bytes(bytes.size() * 8);
  size_t start = 0;
  for (size_t at = 0; at < bytes.size() && !ctx.failed();) {
    const CodePoint c = code_point_at(bytes, at);
    const bool ends = (c.value >= 0x0A && c.value <= 0x0D) || (c.value >= 0x1C && c.value <= 0x1E) || c.value == 0x85 ||
                      c.value == 0x2028 || c.value == 0x2029;
    size_t next = at + c.bytes;
    if (c.value == '\r' && next < bytes.size() && bytes[next] == '\n') ++next;
    if (ends) {
      ctx.push(out, ctx.substring(text, start, keep_ends ? next : at));
      start = next;
    }
    at = next;
  }
  if (start < bytes.size()) ctx.push(out, ctx.substring(text, start, bytes.size()));
  return out;
}

}  // namespace strata::jinja
