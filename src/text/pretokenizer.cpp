#include "text/pretokenizer.h"

#include <array>

#include "text/unicode.h"

namespace strata {

namespace {

constexpr size_t kAscii = 128;

const std::array<CharClass, kAscii>& ascii_classes() {
  static const auto table = [] {
    std::array<CharClass, kAscii> t;
    for (size_t i = 0; i < kAscii; ++i) t[i] = class_of({static_cast<int32_t>(i), 1, Utf8Kind::valid});
    return t;
  }();
  return table;
}

struct Step {
  CharClass kind = CharClass::other;
  size_t end = 0;  // first byte after the character
};

class Matcher {
 public:
  explicit Matcher(std::string_view text) : text_(text), ascii_(ascii_classes()) {}

  size_t pretoken_end(size_t pos) const {
    const Step first = step(pos);
    if (text_[pos] == '\'') {
      if (const size_t end = contraction_end(pos); end != 0) return end;
    }
    if (is_word(first.kind)) return word_end(first.end);
    if (first.kind == CharClass::number) return first.end;
    if (first.end < text_.size() && first.kind != CharClass::line_end) {
      const Step second = step(first.end);
      if (is_word(second.kind)) return word_end(second.end);
      if (text_[pos] == ' ' && second.kind == CharClass::other) return symbols_end(second.end);
    }
    return first.kind == CharClass::other ? symbols_end(first.end) : space_end(pos);
  }

 private:
  static bool is_word(CharClass kind) { return kind == CharClass::letter || kind == CharClass::mark; }
  static bool is_space(CharClass kind) { return kind == CharClass::space || kind == CharClass::line_end; }

  Step step(size_t pos) const {
    const auto byte = static_cast<uint8_t>(text_[pos]);
    if (byte < kAscii) return {ascii_[byte], pos + 1};
    const Utf8Char c = utf8_char(text_, pos);
    return {class_of(c), pos + c.length};
  }

  // End of the contraction that begins with the apostrophe at `pos`, or 0. U+017F is an s when case is folded.
  size_t contraction_end(size_t pos) const {
    const auto lower = [&](size_t i) { return i < text_.size() ? static_cast<char>(text_[i] | 0x20) : '\0'; };
    const char a = lower(pos + 1), b = lower(pos + 2);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return pos + 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return pos + 3;
    return text_.substr(pos + 1, 2) == "\xC5\xBF" ? pos + 3 : 0;
  }

  size_t word_end(size_t pos) const {
    while (pos < text_.size()) {
      const Step s = step(pos);
      if (!is_word(s.kind)) break;
      pos = s.end;
    }
    return pos;
  }

  size_t symbols_end(size_t pos) const {
    while (pos < text_.size()) {
      const Step s = step(pos);
      if (s.kind != CharClass::other) break;
      pos = s.end;
    }
    while (pos < text_.size() && (text_[pos] == '\r' || text_[pos] == '\n')) ++pos;
    return pos;
  }

  // A run of white space goes up to its last line end; without one, all but its last character when something follows.
  size_t space_end(size_t begin) const {
    size_t last_line_end = 0, last_begin = begin, pos = begin;
    while (pos < text_.size()) {
      const Step s = step(pos);
      if (!is_space(s.kind)) break;
      if (s.kind == CharClass::line_end) last_line_end = s.end;
      last_begin = pos;
      pos = s.end;
    }
    if (last_line_end != 0) return last_line_end;
    return pos == text_.size() || last_begin == begin ? pos : last_begin;
  }

  std::string_view text_;
  const std::array<CharClass, kAscii>& ascii_;
};

}  // namespace

size_t pretoken_end(std::string_view text, size_t pos) {
  return Matcher(text).pretoken_end(pos);
}

}  // namespace strata
