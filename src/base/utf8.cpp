#include "base/utf8.h"

namespace strata {
namespace {

struct Lead {
  size_t bytes;             // of the whole character; 0: cannot begin one
  unsigned char low, high;  // range of the second byte (rules out overlong forms, surrogates and beyond U+10FFFF)
};

Lead lead_of(unsigned char c) {
  if (c < 0x80) return {1, 0, 0};
  if (c < 0xC2) return {0, 0, 0};
  if (c < 0xE0) return {2, 0x80, 0xBF};
  if (c < 0xF0)
    return {3, static_cast<unsigned char>(c == 0xE0 ? 0xA0 : 0x80),
            static_cast<unsigned char>(c == 0xED ? 0x9F : 0xBF)};
  if (c < 0xF5)
    return {4, static_cast<unsigned char>(c == 0xF0 ? 0x90 : 0x80),
            static_cast<unsigned char>(c == 0xF4 ? 0x8F : 0xBF)};
  return {0, 0, 0};
}

// Bytes of text[i..] that agree with one character, at most its length.
size_t agreeing(std::string_view text, size_t i, const Lead& lead) {
  size_t n = 1;
  for (; n < lead.bytes && i + n < text.size(); ++n) {
    const auto c = static_cast<unsigned char>(text[i + n]);
    const bool fits = n == 1 ? c >= lead.low && c <= lead.high : (c & 0xC0) == 0x80;
    if (!fits) break;
  }
  return n;
}

}  // namespace

size_t utf8_length(std::string_view text, size_t i) {
  if (i >= text.size()) return 0;
  const Lead lead = lead_of(static_cast<unsigned char>(text[i]));
  return lead.bytes != 0 && agreeing(text, i, lead) == lead.bytes ? lead.bytes : 0;
}

}  // namespace strata
