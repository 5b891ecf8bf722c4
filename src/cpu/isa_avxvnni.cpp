// Kernels for x86 processors with AVX2 and AVX-VNNI but not AVX-512 (Alder Lake and later); absent where the compiler
// was not told to use them.
#include "cpu/isa.h"
#include "cpu/isa_includes.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && defined(__BMI2__) && defined(__AVXVNNI__)

#include <immintrin.h>

#define STRATA_LANES 8
#define STRATA_TILE_X 2
#define STRATA_TILE_W 2
#define STRATA_ISA "avxvnni"
// Each needs what is before it.
// clang-format off
#include "cpu/kernels.inl"
#include "cpu/vec_x86.inl"
#include "cpu/vec_avx2.inl"
#include "cpu/isa_kernels.inl"
// clang-format on

namespace strata {
const Kernels* avxvnni_kernels() {
  const bool runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("avxvnni");
  return runs ? &kKernels : nullptr;
}
}  // namespace strata

#else

namespace strata {
const Kernels* avxvnni_kernels() {
  return nullptr;
}
}  // namespace strata

#endif
