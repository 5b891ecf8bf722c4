#include "ops/plain_ops.h"

#include <gtest/gtest.h>

#include "ops/fixtures.h"

namespace strata::test {

TEST(PlainOps, CountsMoreScratchForMoreRowsAndContext) {
  const auto ops = make_plain_ops();
  EXPECT_STREQ(ops->name(), "plain");
  OpsShapes shapes{.max_rows = 16, .d_model = 256, .streams = 4, .hyper_rank = 32, .max_linear_inputs = 1024};
  const size_t few = ops->scratch_bytes(shapes);
  EXPECT_GE(few, 16u * 2 * 1024 * sizeof(float));
  shapes.max_rows = 512;
  const size_t many = ops->scratch_bytes(shapes);
  EXPECT_GT(many, 16 * few);
  shapes.max_context = 1 << 18;
  EXPECT_GT(ops->scratch_bytes(shapes), many);
}

TEST(PlainOps, RefusesIdsThatNobodyChecked) {
  Rng rng(1);
  const TestWeight table(rng, DType::F32, 4, 8, 1.0f);
  const auto ops = make_plain_ops();
  Mat streams(1, 16);
  for (const int id : {-1, 4}) {
    const TokenId token(id);
    EXPECT_DEATH(ops->embed(table.w(), {&token, 1}, {}, streams, 2), "row -?[0-9]+ of a weight with 4 rows");
  }
}

}  // namespace strata::test
