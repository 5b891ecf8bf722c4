#include "ops/plain_conv.h"

#include <gtest/gtest.h>

#include <vector>

namespace strata::plain {
namespace {

// One channel; base rows are 1, 2, ... and logged rows 101, 102, ...
struct OneChannel {
  std::vector<float> base, next, log0, log1;
  SequenceView sequence;
  ConvState state;

  explicit OneChannel(int rows)
      : base(static_cast<size_t>(rows)), next(base.size()), log0(kMaxWindow), log1(kMaxWindow) {
    for (size_t i = 0; i < base.size(); ++i) base[i] = static_cast<float>(i + 1);
    for (size_t i = 0; i < log0.size(); ++i) log0[i] = static_cast<float>(i + 101);
    state = {base.data(), next.data(), {log0.data(), log1.data()}, rows, 1};
  }
};

}  // namespace

TEST(PlainConv, KeptRowsPushOutTheOldest) {
  for (const int rows : {1, 3, 9}) {
    for (int kept = 0; kept <= kMaxWindow; ++kept) {
      OneChannel c(rows);
      c.sequence.kept_rows = kept;
      absorb_kept(c.state, c.sequence);
      std::vector<float> all;
      for (int i = 1; i <= rows; ++i) all.push_back(static_cast<float>(i));
      for (int i = 101; i < 101 + kept; ++i) all.push_back(static_cast<float>(i));
      EXPECT_EQ(c.base, std::vector<float>(all.end() - rows, all.end())) << rows << " rows, " << kept << " kept";
    }
  }
}

TEST(PlainConv, TapsReachBackByTheDilationIntoTheBase) {
  OneChannel c(4);  // three taps, dilation 2
  std::vector<float> inputs = {10, 20, 30}, out(3);
  const std::vector<float> weights = {1000, 100, 1};
  causal_conv(c.state, {inputs.data(), 3, 1}, weights.data(), 3, 2, {out.data(), 3, 1});
  // All large enough that silu is the identity.
  EXPECT_EQ(out, (std::vector<float>{1000 * 1 + 100 * 3 + 10, 1000 * 2 + 100 * 4 + 20, 1000 * 3 + 100 * 10 + 30}));
}

TEST(PlainConv, WindowsGoToTheOtherLogAndChunksToNext) {
  OneChannel c(3);
  std::vector<float> inputs = {10, 20};
  c.sequence.log_current = 1;
  store_inputs(c.state, c.sequence, RowRole::generated, {inputs.data(), 2, 1});
  EXPECT_EQ(c.log0, (std::vector<float>{10, 20, 103, 104, 105, 106, 107, 108}));
  store_inputs(c.state, c.sequence, RowRole::prompt, {inputs.data(), 2, 1});
  EXPECT_EQ(c.next, (std::vector<float>{3, 10, 20}));
  EXPECT_EQ(c.base, (std::vector<float>{1, 2, 3}));
}

}  // namespace strata::plain
