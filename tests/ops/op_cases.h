// All cases that an implementation of ops/ops.h must pass. A test file of an implementation is a few lines:
//   class CpuOps : public testing::TestWithParam<test::OpCase> {};
//   TEST_P(CpuOps, HoldsWhatOpsPromises) {
//     const auto ops = make_my_ops();
//     ASSERT_TRUE(ops->reserve(test::case_shapes()).ok());
//     GetParam().run(*ops, {.f32 = 2e-5, .products = 2e-2});
//   }
//   INSTANTIATE_TEST_SUITE_P(Cases, CpuOps, testing::ValuesIn(test::all_op_cases()), test::OpCaseName());
#pragma once

#include "ops/cases_attention.h"
#include "ops/cases_draft.h"
#include "ops/cases_experts.h"
#include "ops/cases_gdn.h"
#include "ops/cases_hyper.h"
#include "ops/cases_linear.h"
#include "ops/cases_ngram.h"

namespace strata::test {

inline std::vector<OpCase> all_op_cases() {
  std::vector<OpCase> all;
  for (const auto& cases : {linear_cases(), hyper_cases(), gdn_cases(), attention_cases(), indexer_cases(),
                            ngram_cases(), draft_cases(), expert_cases()}) {
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

}  // namespace strata::test
