#include "cpu/cpu_case.h"
#include "ops/cases_experts.h"

namespace strata::test {

class CpuExperts : public testing::TestWithParam<OpCase> {};
TEST_P(CpuExperts, MeetsTheSpec) {
  run_cpu(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, CpuExperts, testing::ValuesIn(expert_cases()), OpCaseName());

TEST(CpuExperts, GiveTheSameBitsWithAnyThreadsAndInstructions) {
  for (const ExpertShape& shape : kExpertShapes) {
    const ExpertModel m(shape);
    Rng weights(9);
    const TestWeight router(weights, DType::F32, shape.n_experts, shape.d_model, 0.3f);
    expect_same_everywhere([&](Ops& ops) {
      std::vector<float> all;
      Rng rng(10);
      for (const int rows : {1, 5, 90}) {
        Mat x(rows, shape.d_model), y(rows, shape.d_model);
        x.fill(rng, 1.0f);
        Routes routes(rows, shape.n_used);
        ops.route(router.w(), x, routes.view);
        ops.experts(m.layer, x, routes.view, y, RowRole::prompt);
        all.insert(all.end(), routes.weights.begin(), routes.weights.end());
        append(all, y);
      }
      return all;
    });
  }
}

TEST(CpuExperts, ServeRowsThatAllChooseOneExpert) {
  const ExpertShape shape = kExpertShapes[1];
  const ExpertModel m(shape);
  WorkerPool pool(2);
  CpuOps ops(pool, *available_kernels().front());
  ASSERT_TRUE(ops.reserve(case_shapes()).ok());
  Rng rng(11);
  const int rows = 150;
  Mat x(rows, shape.d_model), y(rows, shape.d_model);
  x.fill(rng, 1.0f);
  Routes routes(rows, 1);
  std::fill(routes.ids.begin(), routes.ids.end(), shape.n_experts - 1);
  std::fill(routes.weights.begin(), routes.weights.end(), 1.0f);
  ops.experts(m.layer, x, routes.view, y, RowRole::prompt);
  for (const int r : {0, 63, 64, rows - 1}) {
    expect_near(y.row(r), m.spec(x.vec(r), routes.row(r)), 2 * kCpuTolerance.products, fmt::format("row {}", r));
  }
}

TEST(CpuExperts, RefuseAnExpertThatDoesNotExist) {
  const ExpertModel m(kExpertShapes[0]);
  WorkerPool pool(1);
  CpuOps ops(pool, *available_kernels().front());
  ASSERT_TRUE(ops.reserve(case_shapes()).ok());
  Mat x(1, m.layer.d_model), y(1, m.layer.d_model);
  x.row(0)[0] = 1;
  Routes routes(1, 1);
  for (const int id : {-1, m.layer.n_experts}) {
    routes.ids[0] = id;
    EXPECT_DEATH(ops.experts(m.layer, x, routes.view, y, RowRole::generated), "expert -?[0-9]+ of 6");
  }
}

}  // namespace strata::test
