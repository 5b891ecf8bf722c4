// The block indexer: one key per complete block of tokens, and the best blocks of each row.
#include "ops/plain_indexer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "ops/plain_math.h"
#include "ops/plain_ops.h"

namespace strata {
namespace plain {
namespace {

// Mean of the block's raw keys, then norm, then rotation at the block's first token. Rows of earlier steps are in the
// ring.
void finish_block(const QsaWeights& w, int ordinal, const KvView& kv, Pos first) {
  float* key = kv.block_key(ordinal, first / w.block_tokens);
  for (int i = 0; i < w.index_dim; ++i) {
    float sum = 0;
    for (Pos p = first; p < first + w.block_tokens; ++p) sum += kv.raw_key(ordinal, p)[i];
    key[i] = sum / static_cast<float>(w.block_tokens);
  }
  rms_norm(key, w.index_k_norm, w.index_dim, w.eps, key);
  rotate(w.rope, kv.ring_pos[first % kv.ring_rows], key);
}

// Sum over heads of max(0, q.k). What is not a number ranks below everything, so that the order stays total.
float block_score(const QsaWeights& w, const float* queries, const float* key) {
  float score = 0;
  for (int head = 0; head < w.index_heads; ++head) {
    const float product = dot(queries + head * w.index_dim, key, w.index_dim);
    score += product < 0 ? 0 : product;
  }
  return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
}

}  // namespace

void prepare_index(const QsaWeights& w, int ordinal, const QsaInputs& in, int row, const Pos3& pos, const KvView& kv,
                   Pos p, MatF32 index_q) {
  const KvLayer& layer = kv.layers[ordinal];
  CHECK(layer.index_dim == w.index_dim && layer.block_tokens == w.block_tokens && kv.ring_rows >= w.block_tokens,
        "index keys of {} in blocks of {}, ring of {} rows", layer.index_dim, layer.block_tokens, kv.ring_rows);
  for (int head = 0; head < w.index_heads; ++head) {
    const int at = head * w.index_dim;
    rms_norm(in.index_q.row(row) + at, w.index_q_norm, w.index_dim, w.eps, index_q.row(row) + at);
    rotate(w.rope, pos, index_q.row(row) + at);
  }
  std::copy_n(in.index_k.row(row), w.index_dim, kv.raw_key(ordinal, p));
  kv.ring_pos[p % kv.ring_rows] = pos;
  if ((p + 1) % w.block_tokens == 0) finish_block(w, ordinal, kv, p + 1 - w.block_tokens);
}

}  // namespace plain

void PlainOps::select_blocks(const QsaWeights& w, int ordinal, const Queries& q, std::span<const Segment> segments,
                             Selection out) {
  std::vector<float> scores;
  std::vector<int32_t> order;
  for (const Segment& segment : segments) {
    const KvView& kv = segment.sequence->kv;
    for (int i = 0; i < segment.n_rows; ++i) {
      const int row = segment.first_row + i;
      const int visible = segment.first_pos + i + 1;
      if (!plain::has_indexer(w) || visible / w.block_tokens <= w.budget_blocks) {
        out.count[row] = Selection::kAll;
        continue;
      }
      const int blocks = visible / w.block_tokens;
      CHECK(out.capacity >= w.budget_blocks, "room for {} of {} blocks", out.capacity, w.budget_blocks);
      scores.resize(static_cast<size_t>(blocks));
      for (int b = 0; b < blocks; ++b) {
        scores[static_cast<size_t>(b)] = plain::block_score(w, q.index_q.row(row), kv.block_key(ordinal, b));
      }
      order.resize(scores.size());
      std::iota(order.begin(), order.end(), 0);
      const auto budget_end = order.begin() + w.budget_blocks;
      std::nth_element(order.begin(), budget_end, order.end(), [&](int32_t a, int32_t b) {
        const float score_a = scores[static_cast<size_t>(a)], score_b = scores[static_cast<size_t>(b)];
        return score_a != score_b ? score_a > score_b : a < b;
      });
      std::sort(order.begin(), budget_end);
      std::copy(order.begin(), budget_end, out.of(row));
      out.count[row] = w.budget_blocks;
    }
  }
}

}  // namespace strata
