// Kernels for any processor.
#include "cpu/isa.h"
#include "cpu/isa_includes.h"

#define STRATA_LANES 4
#define STRATA_TILE_X 1
#define STRATA_TILE_W 2
#define STRATA_ISA "generic"
// Each needs what is before it.
// clang-format off
#include "cpu/kernels.inl"
#include "cpu/vec_generic.inl"
#include "cpu/isa_kernels.inl"
// clang-format on

namespace strata {
const Kernels* generic_kernels() {
  return &kKernels;
}
}  // namespace strata
