// Hyper-connections: what replaces every layer norm. Read: norm of each stream, a low-rank mix of all of them, the mean
// of the mixed streams. Write: every stream gets the sub-layer's output times its own gain.
#include "base/check.h"
#include "ops/plain_math.h"
#include "ops/plain_ops.h"
#include "ops/plain_weights.h"

namespace strata {

void PlainOps::hyper_flush(MatF32 streams, const SublayerOutput& previous) {
  if (previous.empty()) return;
  const int n_streams = previous.gains.cols, width = previous.y.cols;
  CHECK(previous.y.rows == streams.rows && previous.gains.rows == streams.rows && streams.cols == n_streams * width,
        "streams {} x {}, output {} x {}, gains {} x {}", streams.rows, streams.cols, previous.y.rows, width,
        previous.gains.rows, n_streams);
  for (int r = 0; r < streams.rows; ++r) {
    const float* y = previous.y.row(r);
    for (int s = 0; s < n_streams; ++s) {
      const float gain = previous.gains.row(r)[s];
      float* stream = streams.row(r) + s * width;
      for (int i = 0; i < width; ++i) stream[i] += gain * y[i];
    }
  }
}

void PlainOps::hyper_step(MatF32 streams, const SublayerOutput& previous, const HyperWeights& next, HyperRead out) {
  const int rows = streams.rows, n_streams = next.streams, width = next.d_model;
  CHECK(streams.cols == n_streams * width && out.x.rows == rows && out.x.cols == width,
        "streams {} x {}, {} streams of {}, read {} x {}", rows, streams.cols, n_streams, width, out.x.rows,
        out.x.cols);
  hyper_flush(streams, previous);

  const plain::OwnedMat normed(rows, streams.cols);
  for (int r = 0; r < rows; ++r) {
    for (int s = 0; s < n_streams; ++s) {
      const int at = s * width;
      plain::rms_norm(streams.row(r) + at, next.norm + at, width, next.eps, normed.row(r) + at);
    }
  }

  const plain::OwnedMat low(rows, next.rank), mix(rows, streams.cols);
  const auto count = static_cast<float>(n_streams);
  plain::multiply(next.down, normed.mat(), low.mat());
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < next.rank; ++i) low.row(r)[i] = plain::silu(low.row(r)[i] / count);
  }
  plain::multiply(next.up, low.mat(), mix.mat());
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < width; ++i) {
      float sum = 0;
      for (int at = i; at < streams.cols; at += width) sum += plain::sigmoid(mix.row(r)[at]) * normed.row(r)[at];
      out.x.row(r)[i] = sum / count;
    }
  }

  if (!next.inject) return;  // a final read has no write after it
  plain::multiply(next.inject, normed.mat(), out.gains);
  for (int r = 0; r < rows; ++r) {
    for (int s = 0; s < n_streams; ++s) out.gains.row(r)[s] = 2 * plain::sigmoid(out.gains.row(r)[s] / count);
  }
}

}  // namespace strata
