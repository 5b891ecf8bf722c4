#include "ops/cases_attention.h"
#include "ops/plain_case.h"

namespace strata::test {

class PlainAttention : public testing::TestWithParam<OpCase> {};
TEST_P(PlainAttention, MeetsTheSpec) {
  run_plain(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, PlainAttention, testing::ValuesIn(attention_cases()), OpCaseName());

}  // namespace strata::test
