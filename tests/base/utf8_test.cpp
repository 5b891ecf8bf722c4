#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

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

TEST(Utf8, EveryCutOfACharacterIsSeenAtTheEnd) {
  const std::string fox = "\xF0\x9F\xA6\x8A";
  for (size_t cut = 1; cut < 4; ++cut) EXPECT_EQ(utf8_incomplete_tail("ab" + fox.substr(0, cut)), cut);
  EXPECT_EQ(utf8_incomplete_tail("ab" + fox), 0u);
  EXPECT_EQ(utf8_incomplete_tail("\xC3"), 1u);
  EXPECT_EQ(utf8_incomplete_tail("\xE2\x82"), 2u);
}

TEST(Utf8, WhatCanNeverBecomeACharacterIsNotATail) {
  EXPECT_EQ(utf8_incomplete_tail(""), 0u);
  EXPECT_EQ(utf8_incomplete_tail("abc"), 0u);
  EXPECT_EQ(utf8_incomplete_tail("\xFF"), 0u);
  EXPECT_EQ(utf8_incomplete_tail("\x80\x80\x80\x80"), 0u);
  EXPECT_EQ(utf8_incomplete_tail("\xED\xA0"), 0u);  // half of a surrogate
}

}  // namespace
}  // namespace strata
