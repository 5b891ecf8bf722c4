#include "cpu/cpu_case.h"
#include "ops/cases_attention.h"

namespace strata::test {

class CpuAttention : public testing::TestWithParam<OpCase> {};
TEST_P(CpuAttention, MeetsTheSpec) {
  run_cpu(GetParam(), kCpuHalfTolerance);
}
INSTANTIATE_TEST_SUITE_P(Cases, CpuAttention, testing::ValuesIn(attention_cases()), OpCaseName());

TEST(CpuAttention, GivesTheSameBitsWithAnyThreadsAndInstructions) {
  for (const QsaShape& shape : kQsaShapes) {
    const QsaModel m(shape);
    expect_same_everywhere([&](Ops& ops) { return prompt_and_windows(ops, m); });
  }
}

}  // namespace strata::test
