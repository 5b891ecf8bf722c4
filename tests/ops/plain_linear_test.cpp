#include "ops/cases_linear.h"
#include "ops/plain_case.h"

namespace strata::test {

class PlainLinear : public testing::TestWithParam<OpCase> {};
TEST_P(PlainLinear, MeetsTheSpec) {
  run_plain(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, PlainLinear, testing::ValuesIn(linear_cases()), OpCaseName());

}  // namespace strata::test
