#include "cpu/cpu_case.h"
#include "ops/cases_hyper.h"

namespace strata::test {

class CpuHyper : public testing::TestWithParam<OpCase> {};
TEST_P(CpuHyper, MeetsTheSpec) {
  run_cpu(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, CpuHyper, testing::ValuesIn(hyper_cases()), OpCaseName());

TEST(CpuHyper, GivesTheSameBitsWithAnyThreadsAndInstructions) {
  for (const HyperShape& shape : kHyperShapes) {
    Rng weights(7);
    const HyperModel m(weights, shape.type, shape.streams, shape.d_model, shape.rank, false);
    expect_same_everywhere([&](Ops& ops) {
      std::vector<float> all;
      Rng rng(8);
      for (const int rows : {1, 6, 70}) {
        Mat streams(rows, shape.streams * shape.d_model), y(rows, shape.d_model), gains(rows, shape.streams);
        Mat x(rows, shape.d_model), next(rows, shape.streams);
        streams.fill(rng, 2.0f);
        y.fill(rng, 1.0f);
        gains.fill(rng, 1.0f);
        ops.hyper_step(streams, {y, gains}, m.w, {x, next});
        for (const MatF32& result : {streams.mat(), x.mat(), next.mat()}) append(all, result);
      }
      return all;
    });
  }
}

}  // namespace strata::test
