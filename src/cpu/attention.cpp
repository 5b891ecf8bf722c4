// Sparse attention: norms and rotations, keys and values into the pages, and the softmax over the visible positions,
// which runs over tiles of positions so that its memory does not grow with the context. Keys and values are read where
// they lie, once for some heads at a time.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cpu/indexer.h"
#include "cpu/mixers.h"
#include "cpu/ops_cpu.h"
#include "cpu/scratch.h"
#include "quant/half.h"

namespace strata {
namespace {

void write_values(KvFormat format, const float* from, int n, std::byte* to) {
  if (format == KvFormat::f32) {
    std::copy_n(from, n, reinterpret_cast<float*>(to));
  } else {
    std::transform(from, from + n, reinterpret_cast<uint16_t*>(to), float_to_half);
  }
}

void prepare_row(const Kernels& k, const QsaWeights& w, int ordinal, const QsaInputs& in, int row, const KvView& kv,
                 Pos p, const Turn& turn, float* key, const Queries& out) {
  for (int head = 0; head < w.heads; ++head) {
    const float* from = in.q.row(row) + static_cast<int64_t>(head) * 2 * w.head_dim;
    float* query = out.q.row(row) + head * w.head_dim;
    k.rms_norm(from, w.q_norm, w.head_dim, w.eps, query);
    turn.apply(query);
    std::copy_n(from + w.head_dim, w.head_dim, out.gate.row(row) + head * w.head_dim);
  }
  std::byte* to = kv.k(ordinal, p);
  for (int head = 0; head < w.kv_heads; ++head, to += static_cast<size_t>(w.head_dim) * kv.value_bytes()) {
    k.rms_norm(in.k.row(row) + head * w.head_dim, w.k_norm, w.head_dim, w.eps, key);
    turn.apply(key);
    write_values(kv.format, key, w.head_dim, to);
  }
  write_values(kv.format, in.v.row(row), in.v.cols, kv.v(ordinal, p));
}

// The positions that a row attends to, ascending: its blocks, then what follows the last complete block.
class Visible {
 public:
  Visible(const QsaWeights& w, const Selection& selection, int row, Pos p)
      : block_tokens_(w.block_tokens), end_(p + 1) {
    if (selection.count[row] == Selection::kAll) return;
    blocks_ = selection.of(row);
    n_blocks_ = selection.count[row];
    tail_ = end_ / block_tokens_ * block_tokens_;
  }

  bool scattered() const { return n_blocks_ > 0; }

  // The next run of neighbours in one page, at most n long; its length is 0 at the end.
  std::pair<Pos, int> next(int n) {
    if (block_ < n_blocks_) {
      const Pos first = blocks_[block_] * block_tokens_ + in_block_;
      const int count = std::min(n, block_tokens_ - in_block_);
      in_block_ += count;
      if (in_block_ == block_tokens_) {
        in_block_ = 0;
        ++block_;
      }
      return {first, count};
    }
    const Pos first = tail_;
    const int count = std::min({n, end_ - first, kPageTokens - first % kPageTokens});
    tail_ += count;
    return {first, count};
  }

 private:
  const int32_t* blocks_ = nullptr;
  int n_blocks_ = 0, block_ = 0, in_block_ = 0;
  const int block_tokens_;
  Pos tail_ = 0;
  const Pos end_;
};

// One row and the query heads [first_head, first_head + heads), which share a key head.
struct Attend {
  const MixerKernels& kernels;
  const QsaWeights& w;
  const KvView& kv;
  int ordinal, kv_head, heads;
  AttendTask t;

  // Where the next positions' keys and values lie; returns how many, 0 at the end.
  int gather(Visible& visible, const std::byte** keys, const std::byte** values) const {
    const size_t bytes = kv.value_bytes();
    const KvLayer& layer = kv.layers[ordinal];
    const size_t k_step = static_cast<size_t>(layer.k_width) * bytes,
                 v_step = static_cast<size_t>(layer.v_width) * bytes;
    const size_t k_at = static_cast<size_t>(kv_head * w.head_dim) * bytes;
    const size_t v_at = static_cast<size_t>(kv_head * w.value_dim) * bytes;
    int n = 0;
    while (n < AttendTask::kPositions) {
      const auto [first, count] = visible.next(AttendTask::kPositions - n);
      if (count == 0) break;
      const std::byte* key = kv.k(ordinal, first) + k_at;
      const std::byte* value = kv.v(ordinal, first) + v_at;
      for (int i = 0; i < count; ++i, ++n, key += k_step, value += v_step) {
        keys[n] = key;
        values[n] = value;
      }
    }
    return n;
  }

  // The places of one tile. Those of scattered blocks are asked for while the tile before is worked on: the processor
  // does not guess where they are.
  struct Places {
    const std::byte** keys;
    const std::byte** values;
    int n;
  };
  static constexpr int kLine = 64;
  static void ask_for(const std::byte* const* rows, int n, int bytes) {
    for (int i = 0; i < n; ++i) {
      for (int at = 0; at < bytes; at += kLine) __builtin_prefetch(rows[i] + at);
    }
  }

  void run(const float* queries, const float* gates, Visible visible, float* out) const {
    constexpr int kStride = AttendTask::kPositions;
    const bool far = visible.scattered(), half = kv.format == KvFormat::f16;
    const int k_bytes = w.head_dim * static_cast<int>(kv.value_bytes()),
              v_bytes = w.value_dim * static_cast<int>(kv.value_bytes());
    std::fill_n(t.highest, heads, -std::numeric_limits<float>::infinity());
    std::fill_n(t.total, heads, 0.0f);
    std::fill_n(out, heads * w.value_dim, 0.0f);
    Places now{t.keys, t.values, 0}, next{t.keys + kStride, t.values + kStride, 0};
    now.n = gather(visible, now.keys, now.values);
    for (; now.n > 0; std::swap(now, next)) {
      next.n = gather(visible, next.keys, next.values);
      if (far) ask_for(next.keys, next.n, k_bytes);
      kernels.attend_scores({now.keys, now.n, w.head_dim, half}, queries, heads, w.scale, t.weights, kStride);
      for (int h = 0; h < heads; ++h)
        t.rescale[h] = kernels.softmax_tile(t.weights + h * kStride, now.n, &t.highest[h], &t.total[h]);
      if (far) ask_for(next.values, next.n, v_bytes);
      kernels.attend_values({now.values, now.n, w.value_dim, half}, t.weights, kStride, t.rescale, heads, out);
    }
    kernels.finish_heads(out, heads, w.value_dim, t.total, gates);
  }
};

}  // namespace

void CpuOps::attention_prepare(const QsaWeights& w, int ordinal, const QsaInputs& in, std::span<const Pos3> positions,
                               std::span<const Segment> segments, Queries out) {
  CHECK(in.q.cols == w.heads * 2 * w.head_dim && in.k.cols == w.kv_heads * w.head_dim &&
            in.v.cols == w.kv_heads * w.value_dim,
        "{} query, {} key and {} value columns", in.q.cols, in.k.cols, in.v.cols);
  for (const Segment& segment : segments) {
    const KvView& kv = segment.sequence->kv;
    if (has_indexer(w)) check_index_memory(w, kv, ordinal, segment.n_rows);
    shop_.each_row(segment.n_rows, 8, [&](int i, int thread) {
      Carver own = shop_.of_thread(thread);
      const PrepareTask t = PrepareTask::carve(own, std::max(w.head_dim, w.index_dim));
      const int row = segment.first_row + i;
      const Pos p = segment.first_pos + i;
      const Pos3& pos = positions[static_cast<size_t>(row)];
      const Turn turn(w.rope, pos, t.cosine, t.sine);
      prepare_row(shop_.kernels, w, ordinal, in, row, kv, p, turn, t.key, out);
      if (has_indexer(w)) prepare_index(shop_.kernels, w, ordinal, in, row, kv, p, pos, turn, out.index_q);
    });
    if (!has_indexer(w)) continue;
    // Block keys need the raw keys of several rows, so they come after all of them.
    const Pos first_block = segment.first_pos / w.block_tokens;
    const Pos end_block = (segment.first_pos + segment.n_rows) / w.block_tokens;
    shop_.each_row(end_block - first_block, 8, [&](int i, int thread) {
      Carver own = shop_.of_thread(thread);
      const PrepareTask t = PrepareTask::carve(own, std::max(w.head_dim, w.index_dim));
      const Pos first = (first_block + i) * w.block_tokens;
      finish_block(shop_.kernels, w, ordinal, kv, first,
                   Turn(w.rope, kv.ring_pos[first % kv.ring_rows], t.cosine, t.sine));
    });
  }
}

void CpuOps::sparse_attention(const QsaWeights& w, int ordinal, const Queries& q, const Selection& selection,
                              std::span<const Segment> segments, MatF32 out) {
  CHECK(w.value_dim == w.head_dim && w.heads % w.kv_heads == 0 && out.cols == w.heads * w.value_dim,
        "{} heads of {}, {} key heads, values of {}, output of {}", w.heads, w.head_dim, w.kv_heads, w.value_dim,
        out.cols);
  Carver shared = shop_.shared();
  const AttentionScratch s = AttentionScratch::carve(shared, out.rows);
  int rows = 0;
  for (const Segment& segment : segments) {
    for (int i = 0; i < segment.n_rows; ++i) s.segment_of[segment.first_row + i] = &segment;
    rows += segment.n_rows;
  }
  CHECK(rows == out.rows, "segments of {} rows, output of {}", rows, out.rows);
  // Fewer tasks than threads: the query heads of a key head are shared out as well, though each then reads the keys.
  const int group = w.heads / w.kv_heads;
  const int tasks = std::max(rows * w.kv_heads, 1);
  const int shares = std::clamp((shop_.pool.n_threads() + tasks - 1) / tasks, 1, group);
  const int heads = (group + shares - 1) / shares;
  const int parts = (group + heads - 1) / heads;
  shop_.pool.run(rows * w.kv_heads * parts, [&](int task, int thread) {
    const int row = task / (w.kv_heads * parts), kv_head = task / parts % w.kv_heads;
    const int first = kv_head * group + task % parts * heads;
    const int count = std::min(heads, (kv_head + 1) * group - first);
    const Segment& segment = *s.segment_of[row];
    Carver own = shop_.of_thread(thread);
    const Attend attend{*shop_.kernels.mixers,        w, segment.sequence->kv, ordinal, kv_head, count,
                        AttendTask::carve(own, count)};
    attend.run(q.q.row(row) + first * w.head_dim, q.gate.row(row) + first * w.head_dim,
               Visible(w, selection, row, segment.first_pos + row - segment.first_row),
               out.row(row) + first * w.value_dim);
  });
}

}  // namespace strata
