#include "ops/cases_experts.h"
#include "ops/plain_case.h"

namespace strata::test {

class PlainExperts : public testing::TestWithParam<OpCase> {};
TEST_P(PlainExperts, MeetsTheSpec) {
  run_plain(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, PlainExperts, testing::ValuesIn(expert_cases()), OpCaseName());

}  // namespace strata::test
