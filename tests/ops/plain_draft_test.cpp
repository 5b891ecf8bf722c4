#include "ops/cases_draft.h"
#include "ops/plain_case.h"

namespace strata::test {

class PlainDraft : public testing::TestWithParam<OpCase> {};
TEST_P(PlainDraft, MeetsTheSpec) {
  run_plain(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, PlainDraft, testing::ValuesIn(draft_cases()), OpCaseName());

}  // namespace strata::test
