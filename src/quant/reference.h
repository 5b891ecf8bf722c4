// Plain scalar arithmetic of every weight format: the judge of all other implementations and the portable path.
// `blocks` is one row: n elements in whole blocks, at any alignment. Nothing is allocated; any bytes may be decoded
// (scales that are not finite give values that are not finite). Encoding: quantise.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/tensor.h"

namespace strata {

// n must be a multiple of the format's block.
void dequantise_row(DType type, const std::byte* blocks, int64_t n, float* out);

// Sum of row[i] * x[i], products and sum in double, in order of i.
double dot_reference(DType type, const std::byte* blocks, const float* x, int64_t n);

}  // namespace strata
