// Injection of n-gram rows: the looked-up rows give every stream a key and all of them one value; how well the key fits
// the stream decides how much of the value is added, together with a dilated convolution of the gated values.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "ops/plain_conv.h"
#include "ops/plain_math.h"
#include "ops/plain_ops.h"
#include "ops/plain_weights.h"

namespace strata {
namespace {

using plain::OwnedMat;

// The table rows of each batch row, side by side.
void gather(const NgramRows& rows, MatF32 out) {
  CHECK(out.cols == rows.heads * rows.table.cols, "{} heads of {} for {} inputs", rows.heads, rows.table.cols,
        out.cols);
  for (int r = 0; r < out.rows; ++r) {
    for (int h = 0; h < rows.heads; ++h) {
      const uint64_t id = rows.ids[static_cast<int64_t>(r) * rows.heads + h];
      CHECK(id < static_cast<uint64_t>(rows.table.rows), "n-gram row {} of {}", id, rows.table.rows);
      plain::weight_row(rows.table, static_cast<int64_t>(id), out.row(r) + h * rows.table.cols);
    }
  }
}

// sigmoid( sign(a) sqrt(max(|a|, 1e-6)) ) with a = norm(key).norm(stream) / sqrt(D)
float gate(const PleWeights& w, int stream, const float* key, const float* residual) {
  const int at = stream * w.d_model;
  const OwnedMat k(1, w.d_model), q(1, w.d_model);
  plain::rms_norm(key + at, w.norm_key + at, w.d_model, w.eps, k.row(0));
  plain::rms_norm(residual + at, w.norm_query + at, w.d_model, w.eps, q.row(0));
  const float a = plain::dot(k.row(0), q.row(0), w.d_model) / std::sqrt(static_cast<float>(w.d_model));
  const float root = std::sqrt(std::max(std::fabs(a), 1e-6f));
  return plain::sigmoid(a > 0 ? root : a < 0 ? -root : a);
}

}  // namespace

void PlainOps::ngram_inject(const PleWeights& w, const NgramRows& rows, std::span<const Segment> segments,
                            MatF32 streams, RowRole) {
  CHECK(streams.cols == w.streams * w.d_model, "{} streams of {}, {} columns", w.streams, w.d_model, streams.cols);
  const OwnedMat looked_up(streams.rows, static_cast<int>(w.key.cols));
  const OwnedMat keys(streams.rows, streams.cols), values(streams.rows, w.d_model);
  gather(rows, looked_up.mat());
  plain::multiply(w.key, looked_up.mat(), keys.mat());
  plain::multiply(w.value, looked_up.mat(), values.mat());

  for (const Segment& segment : segments) {
    const SequenceView& sequence = *segment.sequence;
    plain::absorb_kept(sequence.ple, sequence);
    const OwnedMat gated(segment.n_rows, streams.cols), normed(segment.n_rows, streams.cols);
    const OwnedMat convolved(segment.n_rows, streams.cols);
    for (int i = 0; i < segment.n_rows; ++i) {
      const int row = segment.first_row + i;
      for (int s = 0; s < w.streams; ++s) {
        const int at = s * w.d_model;
        const float gain = gate(w, s, keys.row(row), streams.row(row));
        for (int c = 0; c < w.d_model; ++c) gated.row(i)[at + c] = gain * values.row(row)[c];
        plain::rms_norm(gated.row(i) + at, w.norm_conv + at, w.d_model, w.eps, normed.row(i) + at);
      }
    }
    plain::causal_conv(sequence.ple, normed.mat(), w.conv, w.conv_kernel, w.dilation, convolved.mat());
    plain::store_inputs(sequence.ple, sequence, segment.role, normed.mat());
    for (int i = 0; i < segment.n_rows; ++i) {
      float* stream = streams.row(segment.first_row + i);
      for (int c = 0; c < streams.cols; ++c) stream[c] += gated.row(i)[c] + convolved.row(i)[c];
    }
  }
}

}  // namespace strata
