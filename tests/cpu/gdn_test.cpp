#include "cpu/cpu_case.h"
#include "ops/cases_gdn.h"

namespace strata::test {

class CpuGdn : public testing::TestWithParam<OpCase> {};
TEST_P(CpuGdn, MeetsTheSpec) {
  run_cpu(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, CpuGdn, testing::ValuesIn(gdn_cases()), OpCaseName());

TEST(CpuGdn, GivesTheSameBitsWithAnyThreadsAndInstructions) {
  for (const GdnShape& shape : kGdnShapes) {
    const GdnModel m(shape);
    expect_same_everywhere([&](Ops& ops) { return prompt_and_windows(ops, m); });
  }
}

TEST(CpuGdn, RefusesAWindowBeyondTheLog) {
  const GdnModel m(kGdnShapes[0]);
  TestSequence sequence(m.shape());
  WorkerPool pool(1);
  CpuOps ops(pool, *available_kernels().front());
  ASSERT_TRUE(ops.reserve(case_shapes()).ok());
  Mat out(kMaxWindow + 1, m.width);
  const Segment segment = sequence.segment(0, kMaxWindow + 1, RowRole::generated);
  EXPECT_DEATH(m.run(ops, {&segment, 1}, std::vector<uint64_t>(kMaxWindow + 1, 1), out),
               "9 generated rows in one step");
}

}  // namespace strata::test
