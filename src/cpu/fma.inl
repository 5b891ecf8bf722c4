// fma(a, b, c) = a * b + c, rounded once where the instruction set can; part of kernels.inl.
#if STRATA_LANES > 4
#include <immintrin.h>
#endif

namespace strata {
namespace {

#if STRATA_LANES == 16
STRATA_INLINE Vec fma(Vec a, Vec b, Vec c) {
  return (Vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
#elif STRATA_LANES == 8
STRATA_INLINE Vec fma(Vec a, Vec b, Vec c) {
  return (Vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
#else
STRATA_INLINE Vec fma(Vec a, Vec b, Vec c) {
  return a * b + c;
}
#endif

}  // namespace
}  // namespace strata
