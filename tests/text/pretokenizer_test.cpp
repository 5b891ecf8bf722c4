#include "text/pretokenizer.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <random>
#include <string>
#include <vector>

#include "text/unicode.h"

namespace strata {

namespace {

std::vector<std::string> cut(std::string_view text) {
  std::vector<std::string> out;
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = pretoken_end(text, pos);
    EXPECT_GT(end, pos);
    out.emplace_back(text.substr(pos, end - pos));
    pos = end;
  }
  return out;
}

using Pieces = std::vector<std::string>;

// The expression as data, matched by plain backtracking over code points.
using Set = bool (*)(int32_t);
struct Item {
  Set set;
  size_t min, max;
};
struct Alternative {
  std::vector<Item> items;
  bool not_before_text = false;  // (?!\S)
};
constexpr size_t kMany = SIZE_MAX;

char category(int32_t c) {
  return utf8proc_category_string(c)[0];
}
bool white(int32_t c) {
  return (c >= 9 && c <= 13) || c == 0x85 || category(c) == 'Z';
}
bool text_char(int32_t c) {
  return !white(c);
}
bool line_end(int32_t c) {
  return c == '\r' || c == '\n';
}
bool word(int32_t c) {
  return category(c) == 'L' || category(c) == 'M';
}
bool number(int32_t c) {
  return category(c) == 'N';
}
bool before_word(int32_t c) {
  return !line_end(c) && category(c) != 'L' && category(c) != 'N';
}
bool symbol(int32_t c) {
  return !white(c) && !word(c) && !number(c);
}
bool space(int32_t c) {
  return c == ' ';
}
bool quote(int32_t c) {
  return c == '\'';
}
template <char kLetter>
bool folded(int32_t c) {
  return c == kLetter || c == kLetter - 32 || (kLetter == 's' && c == 0x17F);
}

std::vector<Alternative> expression() {
  const Item q{quote, 1, 1}, s{folded<'s'>, 1, 1}, t{folded<'t'>, 1, 1}, r{folded<'r'>, 1, 1}, e{folded<'e'>, 1, 1};
  const Item v{folded<'v'>, 1, 1}, m{folded<'m'>, 1, 1}, l{folded<'l'>, 1, 1}, d{folded<'d'>, 1, 1};
  return {{{q, s}},
          {{q, t}},
          {{q, r, e}},
          {{q, v, e}},
          {{q, m}},
          {{q, l, l}},
          {{q, d}},
          {{{before_word, 0, 1}, {word, 1, kMany}}},
          {{{number, 1, 1}}},
          {{{space, 0, 1}, {symbol, 1, kMany}, {line_end, 0, kMany}}},
          {{{white, 0, kMany}, {line_end, 1, kMany}}},
          {{{white, 1, kMany}}, true},
          {{{white, 1, kMany}}}};
}

// End of the match from item `i` at `pos`, or npos.
size_t match(const std::vector<int32_t>& text, const Alternative& a, size_t i, size_t pos) {
  if (i == a.items.size())
    return a.not_before_text && pos < text.size() && text_char(text[pos]) ? std::string::npos : pos;
  const Item& item = a.items[i];
  size_t n = 0;
  while (n < item.max && pos + n < text.size() && item.set(text[pos + n])) ++n;
  for (;; --n) {
    if (n < item.min) return std::string::npos;
    if (const size_t end = match(text, a, i + 1, pos + n); end != std::string::npos) return end;
    if (n == 0) return std::string::npos;
  }
}

Pieces cut_by_expression(const std::vector<int32_t>& text) {
  static const auto alternatives = expression();
  Pieces out;
  for (size_t pos = 0; pos < text.size();) {
    size_t end = std::string::npos;
    for (size_t i = 0; i < alternatives.size() && end == std::string::npos; ++i)
      end = match(text, alternatives[i], 0, pos);
    EXPECT_NE(end, std::string::npos);
    if (end == std::string::npos) return out;
    out.emplace_back();
    for (; pos < end; ++pos) append_utf8(out.back(), text[pos]);
  }
  return out;
}

}  // namespace

TEST(Pretokenizer, CutsKnownText) {
  EXPECT_EQ(cut("Hello, world!"), (Pieces{"Hello", ",", " world", "!"}));
  EXPECT_EQ(cut("I'll DON'T it'\u017F x"), (Pieces{"I", "'ll", " DON", "'T", " it", "'\u017F", " x"}));
  EXPECT_EQ(cut("'sad 'tis"), (Pieces{"'s", "ad", " '", "tis"}));
  EXPECT_EQ(cut("x1234"), (Pieces{"x", "1", "2", "3", "4"}));
  EXPECT_EQ(cut("a  b"), (Pieces{"a", " ", " b"}));
  EXPECT_EQ(cut("a \n\n  b"), (Pieces{"a", " \n\n", " ", " b"}));
  EXPECT_EQ(cut("a   "), (Pieces{"a", "   "}));
  EXPECT_EQ(cut("!!\r\n\nx"), (Pieces{"!!\r\n\n", "x"}));
  EXPECT_EQ(cut("\tx ?\n"), (Pieces{"\tx", " ?\n"}));
  EXPECT_EQ(cut("\u0301\u0301a"), (Pieces{"\u0301\u0301a"}));
  EXPECT_EQ(cut("\u0928\u092E\u0938\u094D\u0924\u0947"), (Pieces{"\u0928\u092E\u0938\u094D\u0924\u0947"}));
  EXPECT_EQ(cut("a\u0085b \u0085\u0085x"), (Pieces{"a", "\u0085b", " \u0085", "\u0085x"}));
  EXPECT_EQ(cut(""), Pieces{});
}

TEST(Pretokenizer, BytesThatAreNotUtf8CutAsReplacementCharactersWould) {
  EXPECT_EQ(cut("\xE2\x82"
                "abc"),
            (Pieces{"\xE2\x82"
                    "abc"}));
  EXPECT_EQ(cut("\xFF\xFF"
                "abc \xFF\n"),
            (Pieces{"\xFF\xFF", "abc", " \xFF\n"}));
}

TEST(Pretokenizer, AgreesWithTheExpressionOnEveryShortTextOfLivelyCharacters) {
  const std::vector<int32_t> lively = {'\'', 's', 'L', '1', ' ', '\t', '\n', '\r', '!', 0x301, 0x85, 0x4E00};
  std::vector<int32_t> text;
  size_t total = 1;
  for (size_t length = 1; length <= 4; ++length) {
    total *= lively.size();
    for (size_t code = 0; code < total; ++code) {
      text.clear();
      std::string bytes;
      for (size_t i = 0, rest = code; i < length; ++i, rest /= lively.size()) {
        text.push_back(lively[rest % lively.size()]);
        append_utf8(bytes, text.back());
      }
      ASSERT_EQ(cut(bytes), cut_by_expression(text)) << escaped(bytes);
    }
  }
}

TEST(Pretokenizer, AgreesWithTheExpressionOnRandomText) {
  const std::vector<int32_t> common = {'\'',   's',    'S',    't',    'r',    'e',     'v',      'm',    'l',    'L',
                                       'd',    'x',    '0',    ' ',    ' ',    '\n',    '\r',     '\t',   '.',    '-',
                                       0x85,   0xA0,   0x17F,  0x301,  0x903,  0x20DD,  0x2003,   0x2028, 0xBD,   0x661,
                                       0x2460, 0x200B, 0x180E, 0x4E00, 0xAC00, 0x1F600, 0x10FFFF, 0xE000, 0xFFFD, 0x1C};
  std::mt19937 random(11);
  for (int round = 0; round < 60000; ++round) {
    std::vector<int32_t> text;
    std::string bytes;
    for (size_t n = random() % 24; n > 0; --n) {
      int32_t c = common[random() % common.size()];
      if (random() % 8 == 0) c = static_cast<int32_t>(random() % 0x20000);
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      text.push_back(c);
      append_utf8(bytes, c);
    }
    ASSERT_EQ(cut(bytes), cut_by_expression(text)) << escaped(bytes);
  }
}

}  // namespace strata
