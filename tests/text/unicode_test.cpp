#include "text/unicode.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace strata {

namespace {

std::string nfc(std::string_view text) {
  std::string out;
  append_nfc(out, text);
  return out;
}

std::string utf8(std::initializer_list<int32_t> code_points) {
  std::string out;
  for (const int32_t c : code_points) append_utf8(out, c);
  return out;
}

std::string library_nfc(const std::string& text) {
  utf8proc_uint8_t* mapped = utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
  if (mapped == nullptr) return "not valid";
  std::string out(reinterpret_cast<char*>(mapped));
  std::free(mapped);
  return out;
}

bool is_scalar(int32_t c) {
  return c > 0 && c < 0x110000 && (c < 0xD800 || c > 0xDFFF);
}

std::string repeated(std::string_view unit, size_t n) {
  std::string out;
  out.reserve(unit.size() * n);
  for (size_t i = 0; i < n; ++i) out += unit;
  return out;
}

}  // namespace

TEST(Unicode, EveryCodePointSurvivesEncodingAndDecoding) {
  for (int32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, c);
    const Utf8Char read = utf8_char(text, 0);
    ASSERT_EQ(read.code_point, c);
    ASSERT_EQ(read.length, text.size());
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const Utf8Char part = utf8_char(std::string_view(text).substr(0, cut), 0);
      ASSERT_EQ(part.kind, Utf8Kind::incomplete) << c;
      ASSERT_EQ(part.length, cut);
    }
  }
}

TEST(Unicode, BytesThatAreNoCharacterAreReplacedAsADecoderWould) {
  const std::string r(kReplacement);
  EXPECT_EQ(to_valid_utf8("a\xFFz"), "a" + r + "z");
  EXPECT_EQ(to_valid_utf8("\xC0\xAF"), r + r);                  // overlong
  EXPECT_EQ(to_valid_utf8("\xE0\x80\x80"), r + r + r);          // overlong
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80"), r + r + r);          // surrogate
  EXPECT_EQ(to_valid_utf8("\xF4\x90\x80\x80"), r + r + r + r);  // above U+10FFFF
  EXPECT_EQ(to_valid_utf8("\xE2\x82x"), r + "x");               // one for a character cut short
  EXPECT_EQ(to_valid_utf8("\xF0\x9F\x98"), r);
  EXPECT_EQ(to_valid_utf8("\x80"), r);
  EXPECT_FALSE(is_valid_utf8("\xE2\x82"));
  EXPECT_TRUE(is_valid_utf8("\xE2\x82\xAC"));
}

TEST(Unicode, AsciiIsToldApartAtEveryPlace) {
  for (size_t n = 0; n < 20; ++n) {
    std::string text(n, 'x');
    EXPECT_TRUE(is_ascii(text));
    for (size_t i = 0; i < n; ++i) {
      text[i] = '\x80';
      EXPECT_FALSE(is_ascii(text));
      text[i] = '\x7F';
    }
  }
}

TEST(Unicode, WhiteSpaceIsThePropertyAndNothingElse) {
  const std::set<int32_t> white = {0x09,   0x0A,   0x0B,   0x0C,   0x0D,   0x20,   0x85,   0xA0,   0x1680,
                                   0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008,
                                   0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
  for (int32_t c = 0; c < 0x110000; ++c) {
    const CharClass kind = class_of({c, 1, Utf8Kind::valid});
    ASSERT_EQ(kind == CharClass::space || kind == CharClass::line_end, white.contains(c)) << c;
    ASSERT_EQ(kind == CharClass::line_end, c == '\n' || c == '\r');
  }
}

TEST(Unicode, ClassesFollowTheGeneralCategory) {
  for (int32_t c = 0; c < 0x110000; ++c) {
    const char category = utf8proc_category_string(c)[0];
    const CharClass kind = class_of({c, 1, Utf8Kind::valid});
    ASSERT_EQ(kind == CharClass::letter, category == 'L') << c;
    ASSERT_EQ(kind == CharClass::mark, category == 'M') << c;
    ASSERT_EQ(kind == CharClass::number, category == 'N') << c;
  }
  EXPECT_EQ(class_of({-1, 1, Utf8Kind::invalid}), CharClass::other);
}

TEST(Unicode, FormCComposesKnownCases) {
  EXPECT_EQ(nfc("cafe\u0301"), "caf\u00e9");
  EXPECT_EQ(nfc("\u212B"), "\u00C5");              // a singleton
  EXPECT_EQ(nfc("\u1100\u1161\u11A8"), "\uAC01");  // Hangul
  EXPECT_EQ(nfc("\uAC00\u11A8"), "\uAC01");
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093C");  // excluded from composition
  EXPECT_EQ(nfc("a\u0323\u0301"), "\u1EA1\u0301");
  EXPECT_EQ(nfc("a\u0301\u0323"), "\u1EA1\u0301");  // reordered first
  EXPECT_EQ(nfc("\u0344"), "\u0308\u0301");         // a mark that comes apart
  EXPECT_EQ(nfc("\uFB01"), "\uFB01");               // compatibility forms stay
  EXPECT_EQ(nfc("e\xFF\u0301"), "e\xFF\u0301");     // nothing combines across what is no character
  EXPECT_EQ(nfc("e\u0301\xE2\x82"), "\u00e9\xE2\x82");
  EXPECT_EQ(nfc(std::string_view("e\0\u0301", 4)), std::string_view("e\0\u0301", 4));
}

TEST(Unicode, FormCOfEveryCharacterIsTheLibrarysAloneAndAmongOthersThatMayCombine) {
  for (int32_t c = 1; c < 0x110000; ++c) {
    if (!is_scalar(c)) continue;
    const std::string alone = utf8({c});
    ASSERT_EQ(nfc(alone), library_nfc(alone)) << std::hex << c;
    const char category = utf8proc_category_string(c)[0];
    if (category != 'M' && (category != 'L' || (c > 0x3400 && c < 0xD7A4))) continue;
    for (const std::string& text : {utf8({'a', c, 0x301}), utf8({0x1100, c, 0x11A8}), utf8({0x9C7, 0x327, c, 0x9BE})}) {
      ASSERT_EQ(nfc(text), library_nfc(text)) << std::hex << c;
    }
  }
}

TEST(Unicode, FormCOfRandomSequencesIsTheLibrarys) {
  std::vector<int32_t> lively = {'a', 'A', 'e', ' ', 0x1100, 0x1161, 0x11A8, 0xAC00, 0xAC01, 0x4E00, 0x1F600};
  for (int32_t c = 0xA0; c < 0x30000; ++c) {
    if (is_scalar(c) &&
        (utf8proc_get_property(c)->combining_class != 0 || utf8proc_get_property(c)->decomp_seqindex != UINT16_MAX))
      lively.push_back(c);
  }
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (size_t n = random() % 12; n > 0; --n) append_utf8(text, lively[random() % lively.size()]);
    ASSERT_EQ(nfc(text), library_nfc(text)) << escaped(text);
    ASSERT_EQ(nfc(nfc(text)), nfc(text));
  }
}

TEST(Unicode, AMegabyteOfMarksInTheWrongOrderIsSorted) {
  const size_t n = 300000;
  const std::string text = repeated("\u0301\u0323\u0334", n);  // classes 230, 220, 1
  EXPECT_EQ(nfc(text), repeated("\u0334", n) + repeated("\u0323", n) + repeated("\u0301", n));
  EXPECT_EQ(nfc(repeated("e\u0301", n)), repeated("\u00e9", n));
}

TEST(Unicode, AStreamGivesWholeCharactersThatJoinToTheWhole) {
  std::mt19937 random(3);
  const std::vector<std::string> parts = {"a",    "\u00e9", "\u4f60", "\U0001F600",  "\xF0\x9F",
                                          "\xFF", "\xE2",   "\x80",   "\xED\xA0\x80"};
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (size_t n = random() % 10; n > 0; --n) text += parts[random() % parts.size()];
    Utf8Stream stream;
    std::string joined;
    for (size_t pos = 0; pos < text.size();) {
      const size_t take = 1 + random() % 3;
      const std::string piece = stream.push(std::string_view(text).substr(pos, take));
      ASSERT_TRUE(is_valid_utf8(piece));
      ASSERT_LE(stream.bytes_held(), 3u);
      joined += piece;
      pos += take;
    }
    joined += stream.finish();
    ASSERT_EQ(joined, to_valid_utf8(text)) << escaped(text);
    ASSERT_EQ(stream.finish(), "");
  }
}

TEST(Unicode, EscapedTextShowsWhatCannotBeSeen) {
  EXPECT_EQ(escaped("a b\n\t\r\\"), R"(a b\n\t\r\\)");
  EXPECT_EQ(escaped("\x1B[31m\x7F"), R"(\x1B[31m\x7F)");
  EXPECT_EQ(escaped("\xE2\x82"), R"(\xE2\x82)");
  EXPECT_EQ(escaped("\u200B\u202E\u00A0"), R"(\u{200B}\u{202E}\u{A0})");
  EXPECT_EQ(escaped("caf\u00e9 \u4f60"), "caf\u00e9 \u4f60");
}

}  // namespace strata
