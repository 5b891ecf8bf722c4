#include "cpu/cpu_case.h"
#include "ops/cases_draft.h"

namespace strata::test {

class CpuDraft : public testing::TestWithParam<OpCase> {};
TEST_P(CpuDraft, MeetsTheSpec) {
  run_cpu(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, CpuDraft, testing::ValuesIn(draft_cases()), OpCaseName());

}  // namespace strata::test
