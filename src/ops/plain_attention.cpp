// Sparse attention: preparation of queries, keys and values, and the softmax over the visible positions.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "ops/plain_indexer.h"
#include "ops/plain_math.h"
#include "ops/plain_ops.h"
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

// n values in float32, decoded into scratch where the page holds another format.
const float* read_values(KvFormat format, const std::byte* from, int n, float* scratch) {
  if (format == KvFormat::f32) return reinterpret_cast<const float*>(from);
  const auto* halves = reinterpret_cast<const uint16_t*>(from);
  std::transform(halves, halves + n, scratch, half_to_float);
  return scratch;
}

void prepare_queries(const QsaWeights& w, const QsaInputs& in, int row, const Pos3& pos, const Queries& out) {
  for (int head = 0; head < w.heads; ++head) {
    const float* from = in.q.row(row) + static_cast<int64_t>(head) * 2 * w.head_dim;
    float* query = out.q.row(row) + head * w.head_dim;
    plain::rms_norm(from, w.q_norm, w.head_dim, w.eps, query);
    plain::rotate(w.rope, pos, query);
    std::copy_n(from + w.head_dim, w.head_dim, out.gate.row(row) + head * w.head_dim);
  }
}

void append_key_and_value(const QsaWeights& w, int ordinal, const QsaInputs& in, int row, const Pos3& pos,
                          const KvView& kv, Pos p) {
  std::vector<float> keys(static_cast<size_t>(in.k.cols));
  for (int head = 0; head < w.kv_heads; ++head) {
    float* key = keys.data() + head * w.head_dim;
    plain::rms_norm(in.k.row(row) + head * w.head_dim, w.k_norm, w.head_dim, w.eps, key);
    plain::rotate(w.rope, pos, key);
  }
  write_values(kv.format, keys.data(), in.k.cols, kv.k(ordinal, p));
  write_values(kv.format, in.v.row(row), in.v.cols, kv.v(ordinal, p));
}

// Positions that a row attends to, ascending: the selected blocks, then what follows the last complete block.
void visible_positions(const QsaWeights& w, const Selection& selection, int row, Pos p, std::vector<Pos>& visible) {
  visible.clear();
  Pos tail = 0;
  if (selection.count[row] != Selection::kAll) {
    for (int i = 0; i < selection.count[row]; ++i) {
      const Pos first = selection.of(row)[i] * w.block_tokens;
      for (Pos t = first; t < first + w.block_tokens; ++t) visible.push_back(t);
    }
    tail = (p + 1) / w.block_tokens * w.block_tokens;
  }
  for (Pos t = tail; t <= p; ++t) visible.push_back(t);
}

// Scores to probabilities, in place.
void softmax(std::vector<float>& scores) {
  const float highest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (float& s : scores) {
    s = std::exp(s - highest);
    sum += static_cast<double>(s);
  }
  for (float& s : scores) s = static_cast<float>(static_cast<double>(s) / sum);
}

// One row, one head: out = sum of softmax(scale * q.k) * v over the visible positions.
void attend(const QsaWeights& w, const KvView& kv, int ordinal, int head, const float* query,
            const std::vector<Pos>& visible, float* out) {
  const int group = head / (w.heads / w.kv_heads);
  const size_t k_at = static_cast<size_t>(group * w.head_dim) * kv.value_bytes();
  const size_t v_at = static_cast<size_t>(group * w.value_dim) * kv.value_bytes();
  std::vector<float> scratch(static_cast<size_t>(std::max(w.head_dim, w.value_dim)));
  std::vector<float> scores(visible.size());
  for (size_t i = 0; i < visible.size(); ++i) {
    const float* key = read_values(kv.format, kv.k(ordinal, visible[i]) + k_at, w.head_dim, scratch.data());
    scores[i] = plain::dot(query, key, w.head_dim) * w.scale;
  }
  softmax(scores);
  std::vector<double> sum(static_cast<size_t>(w.value_dim));
  for (size_t i = 0; i < visible.size(); ++i) {
    const float* value = read_values(kv.format, kv.v(ordinal, visible[i]) + v_at, w.value_dim, scratch.data());
    for (size_t j = 0; j < sum.size(); ++j) sum[j] += static_cast<double>(scores[i]) * static_cast<double>(value[j]);
  }
  std::transform(sum.begin(), sum.end(), out, [](double s) { return static_cast<float>(s); });
}

}  // namespace

void PlainOps::attention_prepare(const QsaWeights& w, int ordinal, const QsaInputs& in, std::span<const Pos3> positions,
                                 std::span<const Segment> segments, Queries out) {
  CHECK(in.q.cols == w.heads * 2 * w.head_dim && in.k.cols == w.kv_heads * w.head_dim &&
            in.v.cols == w.kv_heads * w.value_dim,
        "{} query, {} key and {} value columns", in.q.cols, in.k.cols, in.v.cols);
  for (const Segment& segment : segments) {
    const KvView& kv = segment.sequence->kv;
    for (int i = 0; i < segment.n_rows; ++i) {
      const int row = segment.first_row + i;
      const Pos p = segment.first_pos + i;
      const Pos3& pos = positions[static_cast<size_t>(row)];
      prepare_queries(w, in, row, pos, out);
      append_key_and_value(w, ordinal, in, row, pos, kv, p);
      if (plain::has_indexer(w)) plain::prepare_index(w, ordinal, in, row, pos, kv, p, out.index_q);
    }
  }
}

void PlainOps::sparse_attention(const QsaWeights& w, int ordinal, const Queries& q, const Selection& selection,
                                std::span<const Segment> segments, MatF32 out) {
  CHECK(w.value_dim == w.head_dim && w.heads % w.kv_heads == 0 && out.cols == w.heads * w.value_dim,
        "{} heads of {}, {} key heads, values of {}, output of {}", w.heads, w.head_dim, w.kv_heads, w.value_dim,
        out.cols);
  std::vector<Pos> visible;
  for (const Segment& segment : segments) {
    for (int i = 0; i < segment.n_rows; ++i) {
      const int row = segment.first_row + i;
      visible_positions(w, selection, row, segment.first_pos + i, visible);
      for (int head = 0; head < w.heads; ++head) {
        attend(w, segment.sequence->kv, ordinal, head, q.q.row(row) + head * w.head_dim, visible,
               out.row(row) + head * w.value_dim);
      }
      for (int c = 0; c < out.cols; ++c) out.row(row)[c] *= plain::sigmoid(q.gate.row(row)[c]);
    }
  }
}

}  // namespace strata
