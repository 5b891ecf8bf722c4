// Hyper-connections: write the previous output into the streams, norm them, mix them through a low rank, read their
// mean.
#include <algorithm>
#include <array>

#include "cpu/matmul.h"
#include "cpu/mixers.h"
#include "cpu/ops_cpu.h"
#include "cpu/scratch.h"

namespace strata {
namespace {

void write_row(const Kernels& k, MatF32 streams, const SublayerOutput& previous, int r) {
  if (previous.empty()) return;
  const int width = previous.y.cols;
  for (int s = 0; s < previous.gains.cols; ++s) {
    k.add_scaled(streams.row(r) + static_cast<int64_t>(s) * width, previous.y.row(r), previous.gains.row(r)[s], width);
  }
}

void check_output(MatF32 streams, const SublayerOutput& previous) {
  if (previous.empty()) return;
  CHECK(previous.y.rows == streams.rows && previous.gains.rows == streams.rows &&
            streams.cols == previous.gains.cols * previous.y.cols,
        "streams {} x {}, output {} x {}, gains {} x {}", streams.rows, streams.cols, previous.y.rows, previous.y.cols,
        previous.gains.rows, previous.gains.cols);
}

// x[first ..] = mean over the streams of sigmoid(up low) * normed, for `count` channels of all rows.
void mix_channels(const Workshop& shop, const HyperWeights& w, const HyperScratch& s, const ActRows& low, int first,
                  int count, MatF32 x, int thread) {
  Carver own = shop.of_thread(thread);
  const HyperTask t = HyperTask::carve(own, w.streams, w.rank);
  const float mean = 1.0f / static_cast<float>(w.streams);
  const int mix_cols = w.streams * count;
  for (int r0 = 0; r0 < x.rows; r0 += HyperTask::kRows) {
    const int rows = std::min(HyperTask::kRows, x.rows - r0);
    for (int stream = 0; stream < w.streams; ++stream) {
      dot_part(shop, w.up, static_cast<int64_t>(stream) * w.d_model + first, count, low.from(r0), rows,
               t.mix + stream * count, mix_cols, t.tile);
    }
    for (int r = 0; r < rows; ++r) {
      float* mix = t.mix + r * mix_cols;
      float* to = x.row(r0 + r) + first;
      std::fill_n(to, count, 0.0f);
      for (int stream = 0; stream < w.streams; ++stream) {
        const float* normed = s.normed.row(r0 + r) + static_cast<int64_t>(stream) * w.d_model + first;
        shop.kernels.add_gated(to, mix + stream * count, normed, count);
      }
      for (int i = 0; i < count; ++i) to[i] *= mean;
    }
  }
}

}  // namespace

void CpuOps::hyper_flush(MatF32 streams, const SublayerOutput& previous) {
  check_output(streams, previous);
  shop_.each_row(streams.rows, 16, [&](int r, int) { write_row(shop_.kernels, streams, previous, r); });
}

void CpuOps::hyper_step(MatF32 streams, const SublayerOutput& previous, const HyperWeights& next, HyperRead out) {
  const int rows = streams.rows;
  CHECK(streams.cols == next.streams * next.d_model && out.x.rows == rows && out.x.cols == next.d_model,
        "streams {} x {}, {} streams of {}, read {} x {}", rows, streams.cols, next.streams, next.d_model, out.x.rows,
        out.x.cols);
  check_output(streams, previous);
  Carver shared = shop_.shared();
  const HyperScratch s = HyperScratch::carve(shared, rows, next.streams, next.d_model, next.rank);

  shop_.each_row(rows, 8, [&](int r, int) {
    const float* y = previous.empty() ? nullptr : previous.y.row(r);
    for (int stream = 0; stream < next.streams; ++stream) {
      const int64_t at = static_cast<int64_t>(stream) * next.d_model;
      const float gain = previous.empty() ? 0.0f : previous.gains.row(r)[stream];
      shop_.kernels.mixers->write_and_norm(streams.row(r) + at, y, gain, next.norm + at, next.d_model, next.eps,
                                           s.normed.row(r) + at);
    }
    s.normed_rows[r] = s.normed.row(r);
    s.low_rows[r] = s.low.row(r);
  });

  // The gains share the input of the low-rank product.
  const std::array<Weight, 2> ws{next.down, next.inject};
  const std::array<MatF32, 2> ys{s.low, out.gains};
  const size_t n = next.inject ? 2 : 1;
  const float mean = 1.0f / static_cast<float>(next.streams);
  const ActRoom normed_room = ActRoom::carve(shared, rows, streams.cols);
  const ActRows normed = quantise(shop_, normed_room, s.normed_rows, rows, streams.cols,
                                  act_orders(shop_.kernels, std::span(ws).first(n)));
  multiply(shop_, std::span(ws).first(n), normed, std::span(ys).first(n),
           [&](size_t i, MatF32 y, int first, int count) {
             for (int r = 0; r < y.rows; ++r) {
               if (i == 0) {
                 shop_.kernels.silu(y.row(r) + first, mean, count);
               } else {
                 shop_.kernels.sigmoid(y.row(r) + first, mean, 2.0f, count);
               }
             }
           });

  const ActRoom low_room = ActRoom::carve(shared, rows, next.rank);
  const ActRows low = quantise(shop_, low_room, s.low_rows, rows, next.rank, act_orders(shop_.kernels, {&next.up, 1}));
  shop_.pool.parallel_for(next.d_model, HyperTask::kChannels, [&](int first, int last, int thread) {
    mix_channels(shop_, next, s, low, first, last - first, out.x, thread);
  });
}

}  // namespace strata
