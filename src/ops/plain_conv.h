// Causal depth-wise convolutions that continue a sequence: the one of the delta net and the dilated one of the n-gram
// layer. What they remember is their last inputs; the protocol of base, log and next is that of state_views.h.
#pragma once

#include "ops/state_views.h"
#include "tensor/tensor.h"

namespace strata::plain {

// Appends the kept rows of the sequence's current log to the base.
void absorb_kept(const ConvState& state, const SequenceView& sequence);

// out[r][c] = silu( sum over j of weights[c][j] * input[r - (taps-1-j)*dilation][c] ); inputs before row 0 are the
// base.
void causal_conv(const ConvState& state, MatF32 inputs, const float* weights, int taps, int dilation, MatF32 out);

// Generated rows go to the other log; a prompt chunk leaves its last inputs in `next`.
void store_inputs(const ConvState& state, const SequenceView& sequence, RowRole role, MatF32 inputs);

}  // namespace strata::plain
