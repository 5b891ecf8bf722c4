// UTF-8 as byte-level text needs it: characters of any bytes, Unicode classes, canonical composition, output that is
// always valid. A character is one encoded code point, or, where the bytes are not UTF-8, the bytes that a decoder
// would replace by one U+FFFD. Every function takes any bytes and is linear in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace strata {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8Kind : uint8_t { valid, invalid, incomplete };  // incomplete: the text ends inside a character

struct Utf8Char {
  int32_t code_point = -1;  // -1 unless valid
  uint32_t length = 0;      // bytes, at least 1
  Utf8Kind kind = Utf8Kind::invalid;
};

// The character at byte `pos`, which must lie inside the text.
Utf8Char utf8_char(std::string_view text, size_t pos);

bool is_ascii(std::string_view text);
bool is_valid_utf8(std::string_view text);
void append_utf8(std::string& out, int32_t code_point);

// The classes that pre-tokenisation tells apart: general categories L, M and N, White_Space, and of that the two line
// ends.
enum class CharClass : uint8_t { letter, mark, number, space, line_end, other };
CharClass class_of(const Utf8Char& c);  // bytes that are not UTF-8 are `other`, like U+FFFD

// Appends Unicode normalisation form C of the text. Bytes that are not UTF-8 stay as they are and combine with nothing.
void append_nfc(std::string& out, std::string_view text);

// The text with each character that is not UTF-8 replaced by U+FFFD.
std::string to_valid_utf8(std::string_view text);

// The text as a person can read it on one line: \n, \r, \t, \\, \x1B for other bytes and \u{200B} for characters that
// do not show.
std::string escaped(std::string_view text);

// to_valid_utf8() for text that comes in parts: push() gives whole characters only and holds back an unfinished one of
// at most 3 bytes; finish() gives U+FFFD for what is still held. All outputs together are to_valid_utf8() of all
// inputs.
class Utf8Stream {
 public:
  std::string push(std::string_view bytes);
  std::string finish();
  size_t bytes_held() const { return held_.size(); }

 private:
  std::string held_;
};

}  // namespace strata
