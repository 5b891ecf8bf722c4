#include "ops/cases_attention.h"
#include "ops/plain_case.h"

namespace strata::test {

class PlainIndexer : public testing::TestWithParam<OpCase> {};
TEST_P(PlainIndexer, MeetsTheSpec) {
  run_plain(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, PlainIndexer, testing::ValuesIn(indexer_cases()), OpCaseName());

}  // namespace strata::test
