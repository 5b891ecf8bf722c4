// Kernels for x86 processors with AVX2, FMA and F16C; absent where the compiler was not told to use it.
#include <cstddef>

#include "cpu/isa.h"
#include "quant/codebooks.h"
#include "quant/formats.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#define STRATA_LANES 8
#define STRATA_TILE_X 2
#define STRATA_TILE_W 2
#define STRATA_ISA "avx2"
#include "cpu/kernels.inl"

namespace strata {
const Kernels* avx2_kernels() {
  const bool runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  return runs ? &kKernels : nullptr;
}
}  // namespace strata

#else

namespace strata {
const Kernels* avx2_kernels() {
  return nullptr;
}
}  // namespace strata

#endif
