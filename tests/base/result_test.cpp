#include "base/result.h"

#include <algorithm>
#include <memory>
#include <type_traits>

#include "base/ids.h"

namespace strata {

namespace {

Result<int> half_of(int value) {
  if (value % 2 != 0) return Status(Code::invalid_argument, fmt::format("{} is odd", value), "take an even number");
  return value / 2;
}

Result<int> quarter_of(int value) {
  ASSIGN_OR_RETURN(const int half, half_of(value));
  ASSIGN_OR_RETURN(const int quarter, half_of(half));
  return quarter;
}

Status check_even(int value) {
  RETURN_IF_ERROR(half_of(value).status());
  return {};
}

}  // namespace

TEST(Status, IsFineUntilItHasACode) {
  EXPECT_TRUE(Status().ok());
  const Status failed(Code::io, "weights.gguf: read failed", "check the disk");
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(failed.text(), "weights.gguf: read failed; check the disk");
  EXPECT_EQ(Status(Code::io, "no hint").text(), "no hint");
}

TEST(Status, KeepsCodeAndHintWhenSeenFromFurtherOut) {
  const Status outer = Status(Code::corrupt, "bad magic", "download it again").within("model");
  EXPECT_EQ(outer.code(), Code::corrupt);
  EXPECT_EQ(outer.text(), "model: bad magic; download it again");
}

TEST(Status, NamesEachCodeDifferently) {
  std::vector<std::string> names;
  for (int code = 0; code <= static_cast<int>(Code::failed); ++code)
    names.push_back(code_name(static_cast<Code>(code)));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
}

TEST(Result, HoldsTheValueOrTheReason) {
  EXPECT_EQ(*half_of(6), 3);
  EXPECT_EQ(half_of(7).status().message(), "7 is odd");
  EXPECT_TRUE(half_of(6).status().ok());
}

TEST(Result, MovesAValueThatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  EXPECT_EQ(*std::move(result).value(), 5);
}

TEST(Result, ThePropagatingMacrosReturnTheFirstFailure) {
  EXPECT_EQ(*quarter_of(12), 3);
  EXPECT_EQ(quarter_of(6).status().text(), "3 is odd; take an even number");
  EXPECT_TRUE(check_even(2).ok());
  EXPECT_EQ(check_even(3).code(), Code::invalid_argument);
}

TEST(ResultDeathTest, UsingAFailureAsAValueIsABug) {
  EXPECT_DEATH({ (void)half_of(7).value(); }, "7 is odd");
  EXPECT_DEATH({ CHECK(1 > 2, "seen {}", 41); }, "1 > 2.*seen 41");
}

TEST(Ids, OfDifferentThingsAreDifferentTypes) {
  static_assert(!std::is_convertible_v<LayerId, ExpertId> && !std::is_convertible_v<int, TokenId>);
  EXPECT_LT(LayerId(2), LayerId(3));
  EXPECT_NE(TokenId(), TokenId(0));
  EXPECT_EQ(std::hash<TokenId>{}(TokenId(7)), std::hash<TokenId>{}(TokenId(7)));
}

}  // namespace strata
