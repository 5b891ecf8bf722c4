#include "text/jinja_unicode.h"

#include <gtest/gtest.h>

#include <string>

namespace strata::jinja {

TEST(JinjaUnicode, WalksCharactersBothWays) {
  const std::string text = "aé日😀";
  EXPECT_EQ(count_code_points(text), 4u);
  EXPECT_EQ(offset_of_code_point(text, 0), 0u);
  EXPECT_EQ(offset_of_code_point(text, 2), 3u);
  EXPECT_EQ(offset_of_code_point(text, 9), text.size());
  EXPECT_EQ(code_point_at(text, 6).value, U'😀');
  EXPECT_EQ(code_point_at(text, 6).bytes, 4u);
  EXPECT_EQ(code_point_start(text, text.size()), 6u);
  EXPECT_EQ(code_point_start(text, 3), 1u);
}

TEST(JinjaUnicode, KnowsWhatPythonCallsSpaceAndPrintable) {
  for (const char32_t c : {U' ', U'\t', U'\n', U'\x1c', U'\x85', U'\xa0', U'\u2003', U'\u3000'})
    EXPECT_TRUE(is_space(c)) << uint32_t(c);
  for (const char32_t c : {U'a', U'\u200b', U'\ufeff', U'\x1b'}) EXPECT_FALSE(is_space(c)) << uint32_t(c);
  for (const char32_t c : {U'a', U' ', U'é', U'😀'}) EXPECT_TRUE(is_printable(c)) << uint32_t(c);
  for (const char32_t c : {U'\n', U'\x7f', U'\xa0', U'\u200b', U'\ue000'}) EXPECT_FALSE(is_printable(c)) << uint32_t(c);
}

TEST(JinjaUnicode, FindsLongTextsLikeShortOnes) {
  const std::string pattern = "abababababababababac";
  const std::string text = "abab" + pattern + "xx" + pattern + "ab";
  EXPECT_EQ(find_text(text, pattern), 4u);
  EXPECT_EQ(find_text(text, pattern, 5), 26u);
  EXPECT_EQ(find_text(text, pattern, 27), kNotFound);
  EXPECT_EQ(find_last_text(text, pattern), 26u);
  EXPECT_EQ(find_text(text, pattern + "z"), kNotFound);
  EXPECT_EQ(find_last_text(pattern.substr(1), pattern), kNotFound);
  EXPECT_EQ(find_text("abc", "c"), 2u);
  EXPECT_EQ(find_text("abc", "", 3), 3u);
}

}  // namespace strata::jinja
