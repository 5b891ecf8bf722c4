#include "text/jinja_unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "text/unicode.h"

namespace strata::jinja {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

}  // namespace

CodePoint code_point_at(std::string_view text, size_t offset) {
  const auto first = static_cast<unsigned char>(text[offset]);
  if (first < 0x80) return {first, 1};
  const Utf8Char c = utf8_char(text, offset);
  return {c.kind == Utf8Kind::valid ? static_cast<char32_t>(c.code_point) : U'\uFFFD', c.length};
}

size_t code_point_start(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

size_t count_code_points(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

size_t offset_of_code_point(std::string_view text, size_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += code_point_at(text, at).bytes;
  return at;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_printable(char32_t c) {
  if (c < 0x80) return c >= 0x20 && c != 0x7F;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_letter(char32_t c) {
  const utf8proc_category_t k = category(c);
  return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT ||
         k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(char32_t c) {
  const bool superscript = c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079);
  return is_decimal(c) || superscript || (c >= 0x2080 && c <= 0x2089);
}

bool is_numeric(char32_t c) {
  const utf8proc_category_t k = category(c);
  return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool is_upper(char32_t c) {
  return utf8proc_isupper(static_cast<utf8proc_int32_t>(c)) != 0;
}
bool is_lower(char32_t c) {
  return utf8proc_islower(static_cast<utf8proc_int32_t>(c)) != 0;
}

void append_upper(std::string& out, char32_t c) {
  static constexpr const char* kLigatures[] = {"FF", "FI", "FL", "FFI", "FFL", "ST", "ST"};  // U+FB00 to U+FB06
  if (c == 0xDF)
    out += "SS";
  else if (c >= 0xFB00 && c <= 0xFB06)
    out += kLigatures[c - 0xFB00];
  else
    append_utf8(out, utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}

void append_lower(std::string& out, char32_t c) {
  if (c == 0x130)
    out += "i\xCC\x87";
  else
    append_utf8(out, utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

void append_title(std::string& out, char32_t c) {
  static constexpr const char* kLigatures[] = {"Ff", "Fi", "Fl", "Ffi", "Ffl", "St", "St"};
  if (c == 0xDF)
    out += "Ss";
  else if (c >= 0xFB00 && c <= 0xFB06)
    out += kLigatures[c - 0xFB00];
  else
    append_utf8(out, utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

size_t find_text(std::string_view text, std::string_view needle, size_t from) {
  constexpr size_t kShort = 16;  // below this the plain search is linear enough and faster
  if (needle.size() <= kShort) return text.find(needle, from);
  if (from > text.size() || needle.size() > text.size() - from) return kNotFound;
  // border[i]: length of the longest proper prefix of the needle that ends at i.
  std::vector<size_t> border(needle.size(), 0);
  for (size_t i = 1, k = 0; i < needle.size(); ++i) {
    while (k > 0 && needle[i] != needle[k]) k = border[k - 1];
    if (needle[i] == needle[k]) ++k;
    border[i] = k;
  }
  for (size_t i = from, k = 0; i < text.size(); ++i) {
    while (k > 0 && text[i] != needle[k]) k = border[k - 1];
    if (text[i] == needle[k]) ++k;
    if (k == needle.size()) return i + 1 - k;
  }
  return kNotFound;
}

size_t find_last_text(std::string_view text, std::string_view needle) {
  if (needle.size() <= 16) return text.rfind(needle);
  const std::string backward(text.rbegin(), text.rend());
  const std::string wanted(needle.rbegin(), needle.rend());
  const size_t at = find_text(backward, wanted);
  return at == kNotFound ? kNotFound : text.size() - at - needle.size();
}

}  // namespace strata::jinja
