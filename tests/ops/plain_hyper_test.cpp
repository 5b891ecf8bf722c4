#include "ops/cases_hyper.h"
#include "ops/plain_case.h"

namespace strata::test {

class PlainHyper : public testing::TestWithParam<OpCase> {};
TEST_P(PlainHyper, MeetsTheSpec) {
  run_plain(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, PlainHyper, testing::ValuesIn(hyper_cases()), OpCaseName());

}  // namespace strata::test
