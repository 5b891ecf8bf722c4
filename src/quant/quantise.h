// Floats to blocks, plainly: for fixtures, synthetic models and KV rows in tests, not for publishing models.
// Codes and scales are searched for the least squared error of each group on its own; no importance weights.
// Input must be finite; values beyond what a format's scale can hold saturate, those of F16 and BF16 round as half.h
// says. Decoding: reference.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/tensor.h"

namespace strata {

// All formats but those with grids (IQ1, IQ2, IQ3): weights of those come from files or random_blocks.
bool can_quantise(DType type);

// n must be a multiple of the format's block, and the format one that can be quantised.
void quantise_row(DType type, const float* x, int64_t n, std::byte* blocks);

}  // namespace strata
