// Injection of n-gram rows into the streams.
#include <algorithm>
#include <array>
#include <cmath>

#include "cpu/conv.h"
#include "cpu/matmul.h"
#include "cpu/ops_cpu.h"
#include "cpu/scratch.h"

namespace strata {
namespace {

// The table rows of batch row r, side by side.
void look_up(const NgramRows& rows, int r, float* out) {
  const int64_t width = rows.table.cols;
  for (int h = 0; h < rows.heads; ++h) {
    const uint64_t id = rows.ids[static_cast<int64_t>(r) * rows.heads + h];
    CHECK(id < static_cast<uint64_t>(rows.table.rows), "n-gram row {} of {}", id, rows.table.rows);
    dequantise(rows.table, static_cast<int64_t>(id), out + h * width);
  }
}

// sigmoid( sign(a) sqrt(max(|a|, 1e-6)) ) with a = norm(key).norm(stream) / sqrt(D)
float gain(const Kernels& k, const PleWeights& w, int stream, const float* key, const float* residual,
           const NgramTask& t) {
  const int64_t at = static_cast<int64_t>(stream) * w.d_model;
  k.rms_norm(key + at, w.norm_key + at, w.d_model, w.eps, t.key);
  k.rms_norm(residual + at, w.norm_query + at, w.d_model, w.eps, t.query);
  const float* query = t.query;
  float a = 0;
  k.dot_tile(t.key, w.d_model, 1, &query, 1, w.d_model, &a, 1);
  a /= std::sqrt(static_cast<float>(w.d_model));
  const float root = std::sqrt(std::max(std::fabs(a), 1e-6f));
  float gain = a > 0 ? root : a < 0 ? -root : a;
  k.sigmoid(&gain, 1.0f, 1.0f, 1);
  return gain;
}

}  // namespace

void CpuOps::ngram_inject(const PleWeights& w, const NgramRows& rows, std::span<const Segment> segments, MatF32 streams,
                          RowRole) {
  CHECK(streams.cols == w.streams * w.d_model, "{} streams of {}, {} columns", w.streams, w.d_model, streams.cols);
  CHECK(w.key.cols == rows.heads * rows.table.cols && w.value.cols == w.key.cols, "{} heads of {} for {} inputs",
        rows.heads, rows.table.cols, w.key.cols);
  const Kernels& k = shop_.kernels;
  Carver shared = shop_.shared();
  const NgramScratch s = NgramScratch::carve(shared, streams.rows, static_cast<int>(w.key.cols), w.streams, w.d_model);
  shop_.each_row(streams.rows, 8, [&](int r, int) {
    look_up(rows, r, s.looked_up.row(r));
    s.x[r] = s.looked_up.row(r);
  });
  const std::array<Weight, 2> ws{w.key, w.value};
  const std::array<MatF32, 2> ys{s.keys, s.values};
  const ActRoom room = ActRoom::carve(shared, streams.rows, w.key.cols);
  multiply(shop_, ws, quantise(shop_, room, s.x, streams.rows, w.key.cols, act_orders(shop_.kernels, ws)), ys);

  // The normed gated values take the place of the keys: they are the inputs of the convolution.
  shop_.each_row(streams.rows, 4, [&](int r, int thread) {
    Carver own = shop_.of_thread(thread);
    const NgramTask t = NgramTask::carve(own, w.streams, w.d_model);
    for (int stream = 0; stream < w.streams; ++stream) {
      const int64_t at = static_cast<int64_t>(stream) * w.d_model;
      const float g = gain(k, w, stream, s.keys.row(r), streams.row(r), t);
      s.gains.row(r)[stream] = g;
      float* gated = s.keys.row(r) + at;
      for (int c = 0; c < w.d_model; ++c) gated[c] = g * s.values.row(r)[c];
      k.rms_norm(gated, w.norm_conv + at, w.d_model, w.eps, gated);
    }
  });

  for (const Segment& segment : segments) {
    const SequenceView& sequence = *segment.sequence;
    const ConvState& state = sequence.ple;
    CHECK(state.rows == w.history_rows() && state.width == streams.cols, "{} remembered rows of {} for {} taps",
          state.rows, state.width, w.conv_kernel);
    CHECK(segment.role == RowRole::prompt || segment.n_rows <= kMaxWindow, "{} generated rows in one step",
          segment.n_rows);
    const Channels all{0, state.width};
    const MatF32 inputs = s.keys.rows_from(segment.first_row, segment.n_rows);
    conv_absorb_kept(state, sequence, all);
    shop_.each_row(segment.n_rows, 4, [&](int i, int thread) {
      Carver own = shop_.of_thread(thread);
      const NgramTask t = NgramTask::carve(own, w.streams, w.d_model);
      const int r = segment.first_row + i;
      k.mixers->conv_silu(conv_pass(state, inputs, w.conv, w.conv_kernel, w.dilation, all, i, 1), t.convolved, 0);
      for (int stream = 0; stream < w.streams; ++stream) {
        const int64_t at = static_cast<int64_t>(stream) * w.d_model;
        const float g = s.gains.row(r)[stream];
        for (int c = 0; c < w.d_model; ++c) streams.row(r)[at + c] += g * s.values.row(r)[c] + t.convolved[at + c];
      }
    });
    conv_store(state, sequence, segment.role, inputs, all);
  }
}

}  // namespace strata
