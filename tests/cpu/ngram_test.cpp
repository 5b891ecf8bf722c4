#include "cpu/cpu_case.h"
#include "ops/cases_ngram.h"

namespace strata::test {

class CpuNgram : public testing::TestWithParam<OpCase> {};
TEST_P(CpuNgram, MeetsTheSpec) {
  run_cpu(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, CpuNgram, testing::ValuesIn(ngram_cases()), OpCaseName());

TEST(CpuNgram, GivesTheSameBitsWithAnyThreadsAndInstructions) {
  for (const PleShape& shape : kPleShapes) {
    const PleModel m(shape);
    expect_same_everywhere([&](Ops& ops) { return prompt_and_windows(ops, m); });
  }
}

}  // namespace strata::test
