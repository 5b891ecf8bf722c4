#include "base/units.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace strata {
namespace {

TEST(Units, CountsHaveThousandsSeparators) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(248320), "248,320");
  EXPECT_EQ(format_count(UINT64_MAX), "18,446,744,073,709,551,615");
}

TEST(Units, BytesShowThreeDigitsAndChangeUnitBeforeTheyWouldShowFour) {
  EXPECT_EQ(format_bytes(0), "0 bytes");
  EXPECT_EQ(format_bytes(1), "1 byte");
  EXPECT_EQ(format_bytes(999), "999 bytes");
  EXPECT_EQ(format_bytes(1000), "1.00 kB");
  EXPECT_EQ(format_bytes(51852736), "51.9 MB");
  EXPECT_EQ(format_bytes(999499999), "999 MB");
  EXPECT_EQ(format_bytes(999500000), "1.00 GB");
  EXPECT_EQ(format_bytes(28800138240), "28.8 GB");
  EXPECT_EQ(format_bytes(UINT64_MAX), "18.4 EB");
}

TEST(Units, DurationsRoundIntoTheUnitTheyAreShownIn) {
  EXPECT_EQ(format_duration(0), "0.00 s");
  EXPECT_EQ(format_duration(0.424), "0.42 s");
  EXPECT_EQ(format_duration(0.9951), "1.0 s");
  EXPECT_EQ(format_duration(9.96), "10 s");
  EXPECT_EQ(format_duration(59.6), "1 min 00 s");
  EXPECT_EQ(format_duration(185), "3 min 05 s");
  EXPECT_EQ(format_duration(3599.7), "1 h 00 min");
  EXPECT_EQ(format_duration(7650), "2 h 07 min");
}

TEST(Units, NonsenseIsNotPrintedAsANumber) {
  EXPECT_EQ(format_duration(-1), "unknown time");
  EXPECT_EQ(format_duration(std::nan("")), "unknown time");
  EXPECT_EQ(format_duration(1e300), "unknown time");
  EXPECT_EQ(format_rate(std::numeric_limits<double>::infinity(), "tok/s"), "? tok/s");
  EXPECT_EQ(format_rate(std::nan(""), "tok/s"), "? tok/s");
}

TEST(Units, RatesKeepThreeDigits) {
  EXPECT_EQ(format_rate(0.5712, "GB/s"), "0.57 GB/s");
  EXPECT_EQ(format_rate(12.34, "tok/s"), "12.3 tok/s");
  EXPECT_EQ(format_rate(99.96, "tok/s"), "100 tok/s");
  EXPECT_EQ(format_rate(1240.4, "tok/s"), "1,240 tok/s");
}

TEST(Units, OneLineHoldsNoControlCharacterAndNoBrokenText) {
  EXPECT_EQ(one_line("two\nlines\tand \x1b[31mred", 100), "two lines and  [31mred");
  EXPECT_EQ(one_line("bad \xFF byte", 100), "bad \xEF\xBF\xBD byte");
  EXPECT_EQ(one_line("\xC2\x9Bq", 100), " q");
}

TEST(Units, OneLineCutsBetweenCharacters) {
  EXPECT_EQ(one_line("\xC3\xA4\xC3\xB6\xC3\xBC", 3), "\xC3\xA4\xC3\xB6\xC3\xBC");
  EXPECT_EQ(one_line("\xC3\xA4\xC3\xB6\xC3\xBC", 2), "\xC3\xA4\xC3\xB6...");
  EXPECT_EQ(one_line("", 0), "");
}

}  // namespace
}  // namespace strata
