#include "ops/cases_ngram.h"
#include "ops/plain_case.h"

namespace strata::test {

class PlainNgram : public testing::TestWithParam<OpCase> {};
TEST_P(PlainNgram, MeetsTheSpec) {
  run_plain(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, PlainNgram, testing::ValuesIn(ngram_cases()), OpCaseName());

}  // namespace strata::test
