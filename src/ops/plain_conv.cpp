#include "ops/plain_conv.h"

#include <algorithm>

#include "base/check.h"
#include "ops/plain_math.h"

namespace strata::plain {
namespace {

// Row r of the new inputs, or of the base when r < 0.
const float* input_row(const ConvState& state, MatF32 inputs, int r) {
  return r >= 0 ? inputs.row(r) : state.base + static_cast<int64_t>(state.rows + r) * state.width;
}

// The last rows of (base ++ inputs); ascending order, so `to` may be the base itself.
void last_rows(const ConvState& state, MatF32 inputs, float* to) {
  for (int i = 0; i < state.rows; ++i) {
    const float* from = input_row(state, inputs, inputs.rows - state.rows + i);
    float* row = to + static_cast<int64_t>(i) * state.width;
    if (from != row) std::copy_n(from, state.width, row);
  }
}

}  // namespace

void absorb_kept(const ConvState& state, const SequenceView& sequence) {
  const MatF32 kept(state.log[static_cast<size_t>(sequence.log_current)], sequence.kept_rows, state.width);
  if (kept.rows > 0) last_rows(state, kept, state.base);
}

void causal_conv(const ConvState& state, MatF32 inputs, const float* weights, int taps, int dilation, MatF32 out) {
  CHECK(state.rows == (taps - 1) * dilation && state.width == inputs.cols,
        "{} remembered rows of {} for {} taps, dilation {}, {} channels", state.rows, state.width, taps, dilation,
        inputs.cols);
  for (int r = 0; r < inputs.rows; ++r) {
    for (int c = 0; c < inputs.cols; ++c) {
      double sum = 0;
      for (int j = 0; j < taps; ++j) {
        const float input = input_row(state, inputs, r - (taps - 1 - j) * dilation)[c];
        sum += static_cast<double>(weights[static_cast<int64_t>(c) * taps + j]) * static_cast<double>(input);
      }
      out.row(r)[c] = silu(static_cast<float>(sum));
    }
  }
}

void store_inputs(const ConvState& state, const SequenceView& sequence, RowRole role, MatF32 inputs) {
  if (role == RowRole::prompt) return last_rows(state, inputs, state.next);
  CHECK(inputs.rows <= kMaxWindow, "{} generated rows in one step", inputs.rows);
  float* log = state.log[static_cast<size_t>(1 - sequence.log_current)];
  for (int r = 0; r < inputs.rows; ++r) {
    std::copy_n(inputs.row(r), state.width, log + static_cast<int64_t>(r) * state.width);
  }
}

}  // namespace strata::plain
