#include "ops/plain_math.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace strata::plain {

TEST(PlainMath, SigmoidIsSafeAtBothEnds) {
  EXPECT_EQ(sigmoid(0), 0.5f);
  EXPECT_EQ(sigmoid(1e30f), 1.0f);
  EXPECT_EQ(sigmoid(-1e30f), 0.0f);
  EXPECT_EQ(sigmoid(std::numeric_limits<float>::infinity()), 1.0f);
  EXPECT_EQ(sigmoid(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_GT(sigmoid(-80.0f), 0.0f);
  EXPECT_FLOAT_EQ(sigmoid(-2.0f), 0.119202922f);
  EXPECT_TRUE(std::isnan(sigmoid(NAN)));
}

TEST(PlainMath, SoftplusIsTheIdentityAboveTwenty) {
  EXPECT_EQ(softplus(20.5f), 20.5f);
  EXPECT_EQ(softplus(1e30f), 1e30f);
  EXPECT_FLOAT_EQ(softplus(0), 0.693147181f);
  EXPECT_FLOAT_EQ(softplus(-20), 2.06115362e-9f);
  EXPECT_EQ(softplus(-1e30f), 0.0f);
  EXPECT_TRUE(std::isnan(softplus(NAN)));
}

TEST(PlainMath, DotCountsEveryElementOnceAtAnyLength) {
  for (int n = 0; n < 40; ++n) {
    std::vector<float> a(static_cast<size_t>(n)), ones(a.size(), 1.0f);
    for (int i = 0; i < n; ++i) a[static_cast<size_t>(i)] = static_cast<float>(i + 1);
    EXPECT_EQ(dot(a.data(), ones.data(), n), static_cast<float>(n * (n + 1) / 2));
  }
}

TEST(PlainMath, DotKeepsWhatFloatSumsWouldLose) {
  const std::vector<float> a = {1e8f, 1, -1e8f, 1}, b = {1, 1, 1, 1};
  EXPECT_EQ(dot(a.data(), b.data(), 4), 2.0f);
}

TEST(PlainMath, RmsNormOfZeroIsZeroAndMayWorkInPlace) {
  std::vector<float> x(6, 0.0f), weight = {1, 2, 3, 4, 5, 6};
  rms_norm(x.data(), weight.data(), 6, 1e-6f, x.data());
  EXPECT_EQ(x, std::vector<float>(6, 0.0f));
  x = {3, 3, -3, 3, 3, -3};
  rms_norm(x.data(), weight.data(), 6, 0, x.data());
  EXPECT_EQ(x, (std::vector<float>{1, 2, -3, 4, 5, -6}));
}

TEST(PlainMath, RotateTurnsEachPairByItsOwnAxisAndPassesTheRest) {
  const float quarter = 1.57079633f;
  const Rope rope{{quarter, quarter, quarter}, {0, 1, 2}};
  std::vector<float> x = {1, 2, 3, 10, 20, 30, 7};
  rotate(rope, {1, 2, 0}, x.data());
  const std::vector<float> want = {-10, -2, 3, 1, -20, 30, 7};
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], want[i], 1e-5) << i;
}

}  // namespace strata::plain
