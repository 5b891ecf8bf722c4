#include "cpu/indexer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "cpu/cpu_case.h"
#include "ops/cases_attention.h"

namespace strata::test {

class CpuIndexer : public testing::TestWithParam<OpCase> {};
TEST_P(CpuIndexer, MeetsTheSpec) {
  run_cpu(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, CpuIndexer, testing::ValuesIn(indexer_cases()), OpCaseName());

// Long enough that the blocks of one row are shared by threads, with many equal scores.
TEST(CpuIndexer, PicksTheBestOfManyBlocksOnAnyNumberOfThreads) {
  QsaModel m(kQsaShapes[2]);
  m.w.budget_blocks = 100;
  const int n_blocks = 1300;
  SequenceShape shape = m.shape();
  shape.max_tokens = n_blocks * m.w.block_tokens;
  TestSequence sequence(shape);
  Rng rng(5);
  std::vector<float> scores(static_cast<size_t>(n_blocks));
  for (int b = 0; b < n_blocks; ++b) {
    float* key = sequence.view().kv.block_key(0, b);
    std::fill_n(key, m.s.index_dim, 0.0f);
    scores[static_cast<size_t>(b)] = key[0] = static_cast<float>(rng.below(40));
  }
  std::vector<int32_t> want(scores.size());
  std::iota(want.begin(), want.end(), 0);
  std::sort(want.begin(), want.end(), [&](int a, int b) {
    const float score_a = scores[static_cast<size_t>(a)], score_b = scores[static_cast<size_t>(b)];
    return score_a != score_b ? score_a > score_b : a < b;
  });
  want.resize(100);
  std::sort(want.begin(), want.end());

  Mat index_q(1, m.s.index_heads * m.s.index_dim);
  std::fill_n(index_q.row(0), index_q.mat().cols, 0.0f);
  index_q.row(0)[0] = 1;
  OpsShapes shapes = case_shapes();
  shapes.max_context = n_blocks * m.w.block_tokens;
  for (const int n_threads : {1, 2, 4}) {
    WorkerPool pool(n_threads);
    CpuOps ops(pool, *available_kernels().front());
    ASSERT_TRUE(ops.reserve(shapes).ok());
    const Segment segment{&sequence.view(), 0, 1, n_blocks * m.w.block_tokens - 1, RowRole::generated};
    std::vector<int32_t> got(100, -7);
    int32_t count = -7;
    ops.select_blocks(m.w, 0, {{}, {}, index_q}, {&segment, 1}, {got.data(), &count, 100});
    EXPECT_EQ(count, 100);
    EXPECT_EQ(got, want) << n_threads << " threads";
  }
}

// Rows that share a task with others, and scores that lie in no order of magnitude or in one.
TEST(CpuIndexer, FindsTheThresholdAmongScoresOfAnyKind) {
  const int n_blocks = 1300, rows = 7;
  const float kMax = std::numeric_limits<float>::max(), kLeast = std::numeric_limits<float>::denorm_min();
  Rng rng(6);
  const std::function<float(int)> kinds[] = {
      [&](int) { return rng.normal(); },
      [](int) { return 0.0f; },
      [](int b) { return static_cast<float>(b); },
      [](int b) { return static_cast<float>(-b); },
      [&](int) { return std::ldexp(1.0f, rng.below(250) - 126); },
      [&](int b) { return b % 3 == 0   ? kMax
                          : b % 3 == 1 ? kLeast
                                       : NAN; },
      [&](int) { return 1.0f + 0x1p-23f * static_cast<float>(rng.below(2000)); },
  };
  for (const int budget : {1, 100, 1297}) {
    QsaModel m(kQsaShapes[2]);
    m.w.budget_blocks = budget;
    SequenceShape shape = m.shape();
    shape.max_tokens = n_blocks * m.w.block_tokens;
    TestSequence sequence(shape);
    for (const auto& kind : kinds) {
      for (int b = 0; b < n_blocks; ++b) {
        float* key = sequence.view().kv.block_key(0, b);
        std::fill_n(key, m.s.index_dim, 0.0f);
        key[0] = kind(b);
      }
      Mat index_q(rows, m.s.index_heads * m.s.index_dim);
      for (int r = 0; r < rows; ++r) {
        std::fill_n(index_q.row(r), index_q.mat().cols, 0.0f);
        index_q.row(r)[0] = 1;
      }
      OpsShapes shapes = case_shapes();
      shapes.max_context = n_blocks * m.w.block_tokens;
      const Pos first = n_blocks * m.w.block_tokens - rows;
      const auto select = [&](Ops& ops, std::vector<int32_t>& count) {
        std::vector<int32_t> got(static_cast<size_t>(rows * budget), -7);
        const Segment segment{&sequence.view(), 0, rows, first, RowRole::generated};
        ops.select_blocks(m.w, 0, {{}, {}, index_q}, {&segment, 1}, {got.data(), count.data(), budget});
        return got;
      };
      std::vector<int32_t> want_count(rows, -7), count(rows, -7);
      const std::vector<int32_t> want = select(*make_plain_ops(), want_count);
      for (const int n_threads : {1, 3, 8}) {
        WorkerPool pool(n_threads);
        CpuOps ops(pool, *available_kernels().front());
        ASSERT_TRUE(ops.reserve(shapes).ok());
        EXPECT_EQ(select(ops, count), want) << budget << " blocks, " << n_threads << " threads";
        EXPECT_EQ(count, want_count);
      }
    }
  }
}

TEST(CpuIndexer, RefusesARingThatAStepWouldOverrun) {
  const QsaModel m(kQsaShapes[2]);
  SequenceShape shape = m.shape();
  shape.ring_rows = 8;
  TestSequence sequence(shape);
  EXPECT_DEATH(check_index_memory(m.w, sequence.view().kv, 0, 6), "a ring of 8 rows for a step of 6");
  check_index_memory(m.w, sequence.view().kv, 0, 5);
}

}  // namespace strata::test
