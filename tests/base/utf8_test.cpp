#include "base/utf8.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(Utf8, EachLengthOfCharacterIsMeasured) {
  EXPECT_EQ(utf8_length("a", 0), 1u);
  EXPECT_EQ(utf8_length("\xC3\xA9", 0), 2u);
  EXPECT_EQ(utf8_length("\xE2\x82\xAC", 0), 3u);
  EXPECT_EQ(utf8_length("\xF0\x9F\xA6\x8A", 0), 4u);
  EXPECT_EQ(utf8_length("a\xC3\xA9", 1), 2u);
}

TEST(Utf8, IllFormedBytesHaveNoLength) {
  for (const char* bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3(", "\xE2\x82(", "\xF0\x9F\xA6("}) {
    EXPECT_EQ(utf8_length(bad, 0), 0u) << bad;
  }
  EXPECT_EQ(utf8_length("", 0), 0u);
  EXPECT_EQ(utf8_length("a", 1), 0u);
}

}  // namespace
}  // namespace strata
