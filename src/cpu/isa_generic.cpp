// Kernels for any processor.
#include <cstddef>

#include "cpu/isa.h"
#include "quant/codebooks.h"
#include "quant/formats.h"

#define STRATA_LANES 4
#define STRATA_TILE_X 1
#define STRATA_TILE_W 2
#define STRATA_ISA "generic"
#include "cpu/kernels.inl"

namespace strata {
const Kernels* generic_kernels() {
  return &kKernels;
}
}  // namespace strata
