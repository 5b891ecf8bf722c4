// Causal depth-wise convolutions that continue a sequence, for a range of channels. What they remember are their last
// inputs; base, log and next are those of ops/state_views.h.
#pragma once

#include <algorithm>

#include "cpu/mixers.h"
#include "ops/state_views.h"
#include "tensor/tensor.h"

namespace strata {

struct Channels {
  int first = 0, count = 0;
};

// Input row r of a step: one of its own rows, or before them, down to -state.rows, what is remembered.
inline const float* conv_input(const ConvState& state, MatF32 inputs, int r) {
  return r >= 0 ? inputs.row(r) : state.base + static_cast<int64_t>(state.rows + r) * state.width;
}

// The last rows of (base ++ inputs). Ascending order, so `to` may be the base itself.
inline void conv_last_rows(const ConvState& state, MatF32 inputs, Channels c, float* to) {
  for (int i = 0; i < state.rows; ++i) {
    const float* from = conv_input(state, inputs, inputs.rows - state.rows + i);
    float* row = to + static_cast<int64_t>(i) * state.width;
    if (from != row) std::copy_n(from + c.first, c.count, row + c.first);
  }
}

// Appends the kept rows of the sequence's current log to the base.
inline void conv_absorb_kept(const ConvState& state, const SequenceView& sequence, Channels c) {
  const MatF32 kept(state.log[static_cast<size_t>(sequence.log_current)], sequence.kept_rows, state.width);
  if (kept.rows > 0) conv_last_rows(state, kept, c, state.base);
}

// Generated rows go to the other log; a prompt chunk leaves its last inputs in `next`.
inline void conv_store(const ConvState& state, const SequenceView& sequence, RowRole role, MatF32 inputs, Channels c) {
  if (role == RowRole::prompt) return conv_last_rows(state, inputs, c, state.next);
  float* log = state.log[static_cast<size_t>(1 - sequence.log_current)];
  for (int r = 0; r < inputs.rows; ++r) {
    std::copy_n(inputs.row(r) + c.first, c.count, log + static_cast<int64_t>(r) * state.width + c.first);
  }
}

// Rows [first_row, first_row + n_rows) of a step and some channels, as the kernel convolves them.
inline ConvPass conv_pass(const ConvState& state, MatF32 inputs, const float* weights, int taps, int dilation,
                          Channels c, int first_row, int n_rows) {
  return {state.base + static_cast<int64_t>(state.rows) * state.width,
          state.width,
          inputs.data,
          inputs.stride,
          weights,
          taps,
          dilation,
          c.first,
          c.count,
          first_row,
          n_rows};
}

}  // namespace strata
