// How the CPU operations run a case: every instruction set of this machine, each with another number of threads; and
// the promise that neither changes a bit.
#pragma once

#include <functional>

#include "cpu/ops_cpu.h"
#include "ops/op_case.h"

namespace strata::test {

// Sums run in float32 in 16 lanes: for the longest of the cases, 512 terms, the last of 32 steps a lane rounds at 2^-24
// of the sum. Elementary functions are within 2^-22. 2e-5 is 170 units in the last place of a typical value of a row.
// Weights in block formats see activations that were rounded to int8: of 16 normal numbers the largest is about 2.3
// times the typical one, so a rounding is 2.3 / 254 / sqrt(3) = 0.5 % of it, and so is that of a whole product. The
// worst of some ten thousand results, four times that, is 2e-2; two in a row, as in an expert, or norms that divide by
// it, twice as much.
inline constexpr Tolerance kCpuTolerance{2e-5, 4e-2, true};

// A key half way between two fp16 values may be rounded to the other one: 2^-11 of one component of one of the keys,
// whose weight then differs by as much times a component of the query.
inline constexpr Tolerance kCpuHalfTolerance{2e-4, 4e-2, true};

inline void run_cpu(const OpCase& c, const Tolerance& tolerance = kCpuTolerance) {
  int n_threads = 1;
  for (const Kernels* kernels : available_kernels()) {
    SCOPED_TRACE(fmt::format("{}, {} threads", kernels->isa, n_threads));
    WorkerPool pool(n_threads++);
    CpuOps ops(pool, *kernels);
    ASSERT_TRUE(ops.reserve(case_shapes()).ok());
    c.run(ops, tolerance);
  }
}

inline void append(std::vector<float>& to, const MatF32& m) {
  for (int r = 0; r < m.rows; ++r) to.insert(to.end(), m.row(r), m.row(r) + m.cols);
}

// compute(ops) gives the same bits with 1, 2 and 3 threads, when it is run again, and with every instruction set that
// has fused products. The generic kernels round products apart: a result in between two int8 values may then become
// the other one in the next product.
inline void expect_same_everywhere(const std::function<std::vector<float>(Ops&)>& compute) {
  std::vector<float> fused;
  for (const Kernels* kernels : available_kernels()) {
    const bool generic = kernels->isa == std::string_view("generic");
    std::vector<float> want = generic ? std::vector<float>() : fused;
    for (const int n_threads : {1, 2, 3, 2}) {
      WorkerPool pool(n_threads);
      CpuOps ops(pool, *kernels);
      ASSERT_TRUE(ops.reserve(case_shapes()).ok());
      for (int run = 0; run < 2; ++run) {
        const std::vector<float> got = compute(ops);
        if (want.empty()) want = got;
        ASSERT_EQ(got.size(), want.size());
        expect_same_bits(got.data(), want.data(), static_cast<int>(got.size()),
                         fmt::format("{}, {} threads", kernels->isa, n_threads));
      }
    }
    for (const float x : want) ASSERT_TRUE(std::isfinite(x));
    if (!generic) fused = want;
    if (generic && !fused.empty()) {
      ASSERT_EQ(want.size(), fused.size());
      expect_near(want.data(), Vec(fused.begin(), fused.end()), kCpuTolerance.products, "generic");
    }
  }
}

// Prompt, then windows with rejected rows, then single rows, of a model of sequence_cases.h.
template <class M>
std::vector<float> prompt_and_windows(Ops& ops, const M& m) {
  std::vector<float> out;
  TestSequence sequence(m.shape());
  const auto step = [&](RowRole role, int rows, int keep) {
    std::vector<uint64_t> ids;
    for (int i = 0; i < rows; ++i) ids.push_back(static_cast<uint64_t>(1000 + 7 * i + sequence.length()));
    Mat y(rows, m.width);
    const Segment segment = sequence.segment(0, rows, role);
    m.run(ops, {&segment, 1}, ids, y);
    sequence.commit(role, rows, keep);
    append(out, y);
  };
  step(RowRole::prompt, 75, 75);
  step(RowRole::generated, 8, 5);
  step(RowRole::generated, 1, 1);
  step(RowRole::generated, 3, 0);
  step(RowRole::prompt, 41, 41);
  step(RowRole::generated, 1, 1);
  return out;
}

}  // namespace strata::test
