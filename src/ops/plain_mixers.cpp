// The gated delta net: short convolution, gates, and the delta rule on a matrix of associations per value head. A row
// first decays the matrix Z, then stores the error of its recall:  Z = e^g Z;  d = beta (v - k Z);  Z += k (x) d;  o =
// q Z.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "ops/plain_conv.h"
#include "ops/plain_math.h"
#include "ops/plain_ops.h"
#include "ops/plain_weights.h"

namespace strata {
namespace {

using plain::OwnedMat;

// The factors by which the rows of one segment advance the state, and what they read from it.
struct DeltaRows {
  MatF32 q, k;    // [rows, k_heads*k_dim], normalised
  MatF32 v;       // [rows, v_heads*v_dim]
  MatF32 decay;   // [rows, v_heads], e^g
  MatF32 beta;    // [rows, v_heads]
  MatF32 update;  // [rows, v_heads*v_dim], d
};

// Z = decay * Z + key (x) update. Computing a row and applying it later from the log share this line, hence their bits.
void advance(const GdnWeights& w, float decay, const float* key, const float* update, float* z) {
  for (int i = 0; i < w.k_dim; ++i) {
    float* z_row = z + static_cast<int64_t>(i) * w.v_dim;
    for (int j = 0; j < w.v_dim; ++j) z_row[j] = decay * z_row[j] + key[i] * update[j];
  }
}

// out[j] = sum over i of x[i] * (decay * Z[i][j])
void recall(const GdnWeights& w, const float* x, float decay, const float* z, double* out) {
  std::fill_n(out, w.v_dim, 0.0);
  for (int i = 0; i < w.k_dim; ++i) {
    const float* z_row = z + static_cast<int64_t>(i) * w.v_dim;
    for (int j = 0; j < w.v_dim; ++j) out[j] += static_cast<double>(x[i]) * static_cast<double>(decay * z_row[j]);
  }
}

float* head_state(const GdnWeights& w, float* states, int head) {
  return states + static_cast<int64_t>(head) * w.k_dim * w.v_dim;
}

// Brings the kept rows of the current log into the base.
void absorb_kept(const GdnWeights& w, const GdnState& state, const SequenceView& sequence) {
  const auto log = static_cast<size_t>(sequence.log_current);
  const MatF32 decay(state.decay[log], sequence.kept_rows, w.v_heads);
  const MatF32 key(state.key[log], sequence.kept_rows, w.k_heads * w.k_dim);
  const MatF32 update(state.update[log], sequence.kept_rows, w.v_heads * w.v_dim);
  for (int head = 0; head < w.v_heads; ++head) {
    const int key_at = head % w.k_heads * w.k_dim;
    for (int r = 0; r < sequence.kept_rows; ++r) {
      advance(w, decay.row(r)[head], key.row(r) + key_at, update.row(r) + head * w.v_dim,
              head_state(w, state.base, head));
    }
  }
  plain::absorb_kept(state.conv, sequence);
}

// x / sqrt(sum(x^2) + eps) * scale, for each key head
void normalise_heads(const GdnWeights& w, double scale, float* x) {
  for (int head = 0; head < w.k_heads; ++head, x += w.k_dim) {
    const double length = std::sqrt(plain::sum_of_squares(x, w.k_dim) + static_cast<double>(w.eps));
    for (int i = 0; i < w.k_dim; ++i) x[i] *= static_cast<float>(scale / length);
  }
}

// Splits the convolved channels (q | k | v) and computes the gates.
void prepare(const GdnWeights& w, const GdnInputs& in, const Segment& segment, MatF32 convolved, DeltaRows& rows) {
  for (int r = 0; r < segment.n_rows; ++r) {
    const float* channels = convolved.row(r);
    std::copy_n(channels, rows.q.cols, rows.q.row(r));
    std::copy_n(channels + rows.q.cols, rows.k.cols, rows.k.row(r));
    std::copy_n(channels + rows.q.cols + rows.k.cols, rows.v.cols, rows.v.row(r));
    normalise_heads(w, 1.0 / std::sqrt(w.k_dim), rows.q.row(r));
    normalise_heads(w, 1.0, rows.k.row(r));
    const float* alpha = in.alpha.row(segment.first_row + r);
    const float* beta = in.beta.row(segment.first_row + r);
    for (int head = 0; head < w.v_heads; ++head) {
      rows.decay.row(r)[head] = std::exp(w.a[head] * plain::softplus(alpha[head] + w.dt_bias[head]));
      rows.beta.row(r)[head] = plain::sigmoid(beta[head]);
    }
  }
}

// The delta rule of one value head over all rows of a segment, from z on; writes the updates and the reads.
void run_head(const GdnWeights& w, int head, const DeltaRows& rows, float* z, MatF32 out) {
  const int key_at = head % w.k_heads * w.k_dim, value_at = head * w.v_dim;
  std::vector<double> sum(static_cast<size_t>(w.v_dim));
  for (int r = 0; r < out.rows; ++r) {
    const float decay = rows.decay.row(r)[head], beta = rows.beta.row(r)[head];
    const float* key = rows.k.row(r) + key_at;
    const float* value = rows.v.row(r) + value_at;
    float* update = rows.update.row(r) + value_at;
    float* read = out.row(r) + value_at;
    recall(w, key, decay, z, sum.data());
    for (int j = 0; j < w.v_dim; ++j) update[j] = beta * static_cast<float>(value[j] - sum[static_cast<size_t>(j)]);
    advance(w, decay, key, update, z);
    recall(w, rows.q.row(r) + key_at, 1.0f, z, sum.data());
    for (int j = 0; j < w.v_dim; ++j) read[j] = static_cast<float>(sum[static_cast<size_t>(j)]);
  }
}

}  // namespace

void PlainOps::gdn_mix(const GdnWeights& w, int ordinal, const GdnInputs& in, std::span<const Segment> segments,
                       MatF32 out) {
  CHECK(in.qkv.cols == w.channels() && in.gate.cols == w.value_width() && out.cols == w.value_width(),
        "{} channels, gate of {}, output of {}", in.qkv.cols, in.gate.cols, out.cols);
  for (const Segment& segment : segments) {
    const SequenceView& sequence = *segment.sequence;
    const GdnState& state = sequence.gdn[ordinal];
    const int n = segment.n_rows;
    const bool generated = segment.role == RowRole::generated;
    absorb_kept(w, state, sequence);

    const OwnedMat convolved(n, w.channels());
    const MatF32 inputs = in.qkv.rows_from(segment.first_row, n);
    plain::causal_conv(state.conv, inputs, w.conv, w.conv_kernel, 1, convolved.mat());
    plain::store_inputs(state.conv, sequence, segment.role, inputs);

    const OwnedMat q(n, w.k_heads * w.k_dim), k(n, w.k_heads * w.k_dim), v(n, w.value_width());
    const OwnedMat decay(n, w.v_heads), beta(n, w.v_heads), update(n, w.value_width());
    DeltaRows rows{q.mat(), k.mat(), v.mat(), decay.mat(), beta.mat(), update.mat()};
    if (generated) {  // a window's factors are its log
      const auto log = static_cast<size_t>(1 - sequence.log_current);
      rows.decay = MatF32(state.decay[log], n, w.v_heads);
      rows.k = MatF32(state.key[log], n, w.k_heads * w.k_dim);
      rows.update = MatF32(state.update[log], n, w.value_width());
    }
    prepare(w, in, segment, convolved.mat(), rows);

    const MatF32 reads = out.rows_from(segment.first_row, n);
    std::vector<float> scratch(static_cast<size_t>(w.k_dim) * static_cast<size_t>(w.v_dim));
    for (int head = 0; head < w.v_heads; ++head) {
      float* z = generated ? scratch.data() : head_state(w, state.next, head);
      std::copy_n(head_state(w, state.base, head), scratch.size(), z);
      run_head(w, head, rows, z, reads);
    }
    for (int r = 0; r < n; ++r) {
      const float* gate = in.gate.row(segment.first_row + r);
      for (int head = 0; head < w.v_heads; ++head) {
        float* o = reads.row(r) + head * w.v_dim;
        plain::rms_norm(o, w.norm, w.v_dim, w.eps, o);
      }
      for (int i = 0; i < w.value_width(); ++i) reads.row(r)[i] *= plain::sigmoid(gate[i]);
    }
  }
}

void PlainOps::settle(std::span<const GdnWeights* const> layers, SequenceView& sequence) {
  if (sequence.kept_rows == 0) return;
  for (size_t i = 0; i < layers.size(); ++i) absorb_kept(*layers[i], sequence.gdn[i], sequence);
  if (sequence.ple.rows > 0) plain::absorb_kept(sequence.ple, sequence);
}

}  // namespace strata
