#include "cpu/ops_cpu.h"

#include "cpu/cpu_case.h"
#include "ops/cases_linear.h"
#include "ops/plain_ops.h"

namespace strata::test {

class CpuLinear : public testing::TestWithParam<OpCase> {};
TEST_P(CpuLinear, MeetsTheSpec) {
  run_cpu(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, CpuLinear, testing::ValuesIn(linear_cases()), OpCaseName());

TEST(CpuLinear, GivesTheSameBitsWithAnyThreadsAndInstructions) {
  Rng weights(1);
  for (const TypeTraits& type : all_types()) {
    const int cols = 2 * type.block_elems + (type.block_elems == 1 ? 11 : 0);
    const TestWeight a(weights, type.type, 61, cols, 0.1f), b(weights, type.type, 3, cols, 0.1f);
    const Weight ws[] = {a.w(), b.w()};
    expect_same_everywhere([&](Ops& ops) {
      std::vector<float> all;
      Rng rng(2);
      for (const int rows : {1, 4, 37}) {
        Mat x(rows, cols), y(rows, 61), z(rows, 3);
        x.fill(rng, 1.0f);
        const MatF32 ys[] = {y, z};
        ops.linear(ws, x, ys, RowRole::prompt);
        append(all, y);
        append(all, z);
      }
      return all;
    });
  }
}

// The plain twin sums in double: the two differ by the rounding of the float32 sums alone.
TEST(CpuLinear, AgreesWithThePlainTwinInEveryFormat) {
  PlainOps plain;
  WorkerPool pool(2);
  CpuOps cpu(pool, *available_kernels().front());
  ASSERT_TRUE(cpu.reserve(case_shapes()).ok());
  Rng rng(3);
  for (const TypeTraits& type : all_types()) {
    const int cols = 1024;
    const TestWeight w(rng, type.type, 50, cols, 0.1f);
    Mat x(5, cols), got(5, 50), want(5, 50);
    x.fill(rng, 1.0f);
    const MatF32 got_view = got, want_view = want;
    cpu.linear({&w.w(), 1}, x, {&got_view, 1}, RowRole::generated);
    plain.linear({&w.w(), 1}, x, {&want_view, 1}, RowRole::generated);
    const double tolerance = type.block_elems == 1 ? 5e-6 : kCpuTolerance.products;
    for (int r = 0; r < 5; ++r) expect_near(got.row(r), want.vec(r), tolerance, type.name);
  }
}

TEST(CpuLinear, ReadsWeightsAtOddAddresses) {
  WorkerPool pool(1);
  CpuOps ops(pool, *available_kernels().front());
  ASSERT_TRUE(ops.reserve(case_shapes()).ok());
  Rng rng(4);
  for (const DType type : {DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::IQ3_XXS}) {
    const TestWeight w(rng, type, 9, 256, 0.1f);
    std::vector<std::byte> moved(w.w().bytes() + 1);
    std::memcpy(moved.data() + 1, w.w().data, w.w().bytes());
    Weight odd = w.w();
    odd.data = moved.data() + 1;
    Mat x(2, 256), got(2, 9), want(2, 9);
    x.fill(rng, 1.0f);
    const MatF32 got_view = got, want_view = want;
    ops.linear({&odd, 1}, x, {&got_view, 1}, RowRole::generated);
    ops.linear({&w.w(), 1}, x, {&want_view, 1}, RowRole::generated);
    for (int r = 0; r < 2; ++r) expect_same_bits(got.row(r), want.row(r), 9, type_name(type));
  }
}

TEST(CpuOps, ReservesWhatItSaid) {
  WorkerPool pool(3);
  CpuOps ops(pool, *available_kernels().front());
  OpsShapes shapes = case_shapes();
  const size_t bytes = ops.scratch_bytes(shapes);
  EXPECT_GT(bytes, 0u);
  EXPECT_TRUE(ops.reserve(shapes).ok());
  WorkerPool more(4);
  EXPECT_GT(CpuOps(more, *available_kernels().front()).scratch_bytes(shapes), bytes);
  shapes.max_rows *= 2;
  EXPECT_GT(ops.scratch_bytes(shapes), bytes);
}

TEST(CpuOps, StopsAtShapesBeyondTheReservedOnes) {
  const auto run = [](bool reserved, int rows) {
    WorkerPool pool(1);
    CpuOps ops(pool, *available_kernels().front());
    OpsShapes shapes = case_shapes();
    shapes.max_rows = 4;
    if (reserved && !ops.reserve(shapes).ok()) return;
    Rng rng(5);
    const TestWeight router(rng, DType::F32, 64, 32, 1.0f);
    Mat x(rows, 32);
    x.fill(rng, 1.0f);
    std::vector<int32_t> ids(static_cast<size_t>(rows) * 8);
    std::vector<float> weights(ids.size());
    ops.route(router.w(), x, {ids.data(), weights.data(), 8});
  };
  run(true, 4);
  EXPECT_DEATH(run(true, 3000), "larger than the reserved shapes");
  EXPECT_DEATH(run(false, 1), "operations before reserve");
}

TEST(CpuOps, IsMadeWithTheBestKernels) {
  WorkerPool pool(1);
  const auto ops = make_cpu_ops(pool);
  EXPECT_STREQ(ops->name(), "cpu");
  EXPECT_EQ(ops->memory().allocate(100, "a test").value().place(), Place::host);
}

}  // namespace strata::test
