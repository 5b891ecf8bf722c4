// Kernels for x86 processors with AVX-512 and its byte instructions (VNNI, VBMI, GFNI: Ice Lake, Zen 4 and later);
// absent where the compiler was not told to use them.
#include "cpu/isa.h"
#include "cpu/isa_includes.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__) && \
    defined(__AVX512VNNI__) && defined(__AVX512VBMI__) && defined(__GFNI__) && defined(__BMI2__)

#include <immintrin.h>

#define STRATA_LANES 16
#define STRATA_TILE_X 4
#define STRATA_TILE_W 4
#define STRATA_ISA "avx512"
// Each needs what is before it.
// clang-format off
#include "cpu/kernels.inl"
#include "cpu/vec_x86.inl"
#include "cpu/vec_avx512.inl"
#include "cpu/isa_kernels.inl"
// clang-format on

namespace strata {
const Kernels* avx512_kernels() {
  const bool runs = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi") &&
                    __builtin_cpu_supports("gfni") && __builtin_cpu_supports("bmi2");
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
