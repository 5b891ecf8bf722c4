// Kernels for x86 processors with AVX-512 (F, BW, VL, DQ); absent where the compiler was not told to use it.
#include <cstddef>

#include "cpu/isa.h"
#include "quant/codebooks.h"
#include "quant/formats.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)

#define STRATA_LANES 16
#define STRATA_TILE_X 4
#define STRATA_TILE_W 4
#define STRATA_ISA "avx512"
#include "cpu/kernels.inl"

namespace strata {
const Kernels* avx512_kernels() {
  const bool runs = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return runs ? &kKernels : nullptr;
}
}  // namespace strata

#else

namespace strata {
const Kernels* avx512_kernels() {
  return nullptr;
}
}  // namespace strata

#endif
