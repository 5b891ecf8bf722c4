#include "cpu/indexer.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "cpu/ops_cpu.h"
#include "cpu/scratch.h"

namespace strata {

void check_index_memory(const QsaWeights& w, const KvView& kv, int ordinal, int n_rows) {
  const KvLayer& layer = kv.layers[ordinal];
  CHECK(layer.index_dim == w.index_dim && layer.block_tokens == w.block_tokens, "index keys of {} in blocks of {}",
        layer.index_dim, layer.block_tokens);
  CHECK(kv.ring_rows >= n_rows + w.block_tokens - 1, "a ring of {} rows for a step of {}", kv.ring_rows, n_rows);
}

void prepare_index(const Kernels& kernels, const QsaWeights& w, int ordinal, const QsaInputs& in, int row,
                   const KvView& kv, Pos p, const Pos3& pos, const Turn& turn, MatF32 index_q) {
  for (int head = 0; head < w.index_heads; ++head) {
    float* query = index_q.row(row) + head * w.index_dim;
    kernels.rms_norm(in.index_q.row(row) + head * w.index_dim, w.index_q_norm, w.index_dim, w.eps, query);
    turn.apply(query);
  }
  std::copy_n(in.index_k.row(row), w.index_dim, kv.raw_key(ordinal, p));
  kv.ring_pos[p % kv.ring_rows] = pos;
}

void finish_block(const Kernels& kernels, const QsaWeights& w, int ordinal, const KvView& kv, Pos first,
                  const Turn& turn) {
  float* key = kv.block_key(ordinal, first / w.block_tokens);
  std::fill_n(key, w.index_dim, 0.0f);
  for (Pos p = first; p < first + w.block_tokens; ++p)
    kernels.add_scaled(key, kv.raw_key(ordinal, p), 1.0f, w.index_dim);
  for (int i = 0; i < w.index_dim; ++i) key[i] /= static_cast<float>(w.block_tokens);
  kernels.rms_norm(key, w.index_k_norm, w.index_dim, w.eps, key);
  turn.apply(key);
}

namespace {

// scores[b] = sum over heads of max(0, q.k) for blocks [first, last); what is not a number ranks below everything.
void score_blocks(const Kernels& kernels, const QsaWeights& w, const KvView& kv, int ordinal, const float* queries,
                  int first, int last, const SelectTask& t, float* scores) {
  for (int b0 = first; b0 < last; b0 += SelectTask::kBlocks) {
    const int n = std::min(SelectTask::kBlocks, last - b0);
    for (int i = 0; i < n; ++i) t.keys[i] = kv.block_key(ordinal, b0 + i);
    kernels.dot_tile(queries, w.index_dim, w.index_heads, t.keys, n, w.index_dim, t.products, w.index_heads);
    for (int i = 0; i < n; ++i) {
      float score = 0;
      for (int head = 0; head < w.index_heads; ++head) {
        const float product = t.products[i * w.index_heads + head];
        score += product < 0 ? 0 : product;
      }
      scores[b0 + i] = std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
    }
  }
}

// The `budget` best of n scores, ascending; of equal ones the lower.
void pick_blocks(const float* scores, float* sorted, int n, int budget, int32_t* blocks) {
  std::copy_n(scores, n, sorted);
  std::nth_element(sorted, sorted + budget - 1, sorted + n, std::greater<>());
  const float threshold = sorted[budget - 1];
  auto ties = static_cast<int>(std::count(sorted, sorted + budget, threshold));
  for (int b = 0; b < n; ++b) {
    if (scores[b] > threshold || (scores[b] == threshold && ties-- > 0)) *blocks++ = b;
  }
}

constexpr int kSharedBlocks = 512;  // so many blocks of one row are worth another thread

}  // namespace

void CpuOps::select_blocks(const QsaWeights& w, int ordinal, const Queries& q, std::span<const Segment> segments,
                           Selection out) {
  for (const Segment& segment : segments) {
    const KvView& kv = segment.sequence->kv;
    const auto complete = [&](int i) { return (segment.first_pos + i + 1) / w.block_tokens; };
    const auto score_and_pick = [&](int i, int thread, bool share) {
      const int row = segment.first_row + i;
      if (!has_indexer(w) || complete(i) <= w.budget_blocks) {
        out.count[row] = Selection::kAll;
        return;
      }
      CHECK(out.capacity >= w.budget_blocks, "room for {} of {} blocks", out.capacity, w.budget_blocks);
      const int blocks = complete(i);
      const float* queries = q.index_q.row(row);
      Carver own = shop_.of_thread(thread);
      const SelectTask t = SelectTask::carve(own, blocks, w.index_heads);
      if (share) {
        shop_.pool.parallel_for(blocks, kSharedBlocks, [&](int first, int last, int helper) {
          Carver helpers_own = shop_.of_thread(helper);
          const SelectTask h = SelectTask::carve(helpers_own, blocks, w.index_heads);
          score_blocks(shop_.kernels, w, kv, ordinal, queries, first, last, h, t.scores);
        });
      } else {
        score_blocks(shop_.kernels, w, kv, ordinal, queries, 0, blocks, t, t.scores);
      }
      pick_blocks(t.scores, t.sorted, blocks, w.budget_blocks, out.of(row));
      out.count[row] = w.budget_blocks;
    };
    // A row per task, or, with fewer rows than threads, the blocks of one row after the other on all threads.
    if (segment.n_rows >= shop_.pool.n_threads()) {
      shop_.each_row(segment.n_rows, 1, [&](int i, int thread) { score_and_pick(i, thread, false); });
    } else {
      for (int i = 0; i < segment.n_rows; ++i) score_and_pick(i, 0, true);
    }
  }
}

}  // namespace strata
