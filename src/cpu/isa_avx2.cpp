// Kernels for x86 processors with AVX2; absent where the compiler was not told to use it.
#include <cstddef>

#include "cpu/isa.h"
#include "quant/codebooks.h"
#include "quant/formats.h"

#ifdef __AVX2__

#define STRATA_LANES 8
#define STRATA_TILE_X 2
#define STRATA_TILE_W 2
#define STRATA_ISA "avx2"
#include "cpu/kernels.inl"

namespace strata {
const Kernels* avx2_kernels() {
  return __builtin_cpu_supports("avx2") ? &kKernels : nullptr;
}
}  // namespace strata

#else

namespace strata {
const Kernels* avx2_kernels() {
  return nullptr;
}
}  // namespace strata

#endif
