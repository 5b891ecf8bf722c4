// Valid random blocks of any format: weights for tests and synthetic models, also for formats that cannot be quantised.
// Every code, sign and scale bit pattern occurs; scales are finite. The same arguments give the same bytes everywhere,
// and block i depends on the seed and i alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/tensor.h"

namespace strata {

// Values have mean near zero and a root mean square near `rms` (0.001 .. 100). NVFP4 cannot go below 0.02: there the
// external scale of the tensor does it. `first`: the number of the first block, so that a tensor can be filled in any
// pieces.
void random_blocks(DType type, uint64_t seed, int64_t n_blocks, std::byte* out, float rms = 0.02f, int64_t first = 0);

}  // namespace strata
