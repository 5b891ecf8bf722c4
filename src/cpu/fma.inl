// fma(a, b, c) = a * b + c, rounded once, on every processor; part of kernels.inl.
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
#elif defined(__FP_FAST_FMAF)
STRATA_INLINE Vec fma(Vec a, Vec b, Vec c) {
  Vec r;
  for (int i = 0; i < kLanes; ++i) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return r;
}
#else
typedef double Double2 __attribute__((vector_size(16)));
typedef int64_t Long2 __attribute__((vector_size(16)));
typedef float Float2 __attribute__((vector_size(8)));

// The product is exact in double. The sum is rounded to odd there (an inexact one gets an odd last bit), which makes
// rounding it once more to float right.
STRATA_INLINE Float2 fma_of_two(Float2 a, Float2 b, Float2 c) {
  const Double2 product = __builtin_convertvector(a, Double2) * __builtin_convertvector(b, Double2);
  const Double2 addend = __builtin_convertvector(c, Double2), zero = {};
  const Double2 sum = product + addend;
  const Double2 part = sum - product;
  const Double2 error = (product - (sum - part)) + (addend - part);
  Long2 bits = (Long2)sum;
  const Long2 one = {1, 1};
  const Long2 even_and_inexact = ((error < zero) | (error > zero)) & ((bits & one) == 0);
  const Long2 away_from_zero = (error > zero) == (sum > zero);
  bits += even_and_inexact & (away_from_zero ? one : -one);
  return __builtin_convertvector((Double2)bits, Float2);
}
STRATA_INLINE Vec fma(Vec a, Vec b, Vec c) {
  const Float2 low = fma_of_two(__builtin_shufflevector(a, a, 0, 1), __builtin_shufflevector(b, b, 0, 1),
                                __builtin_shufflevector(c, c, 0, 1));
  const Float2 high = fma_of_two(__builtin_shufflevector(a, a, 2, 3), __builtin_shufflevector(b, b, 2, 3),
                                 __builtin_shufflevector(c, c, 2, 3));
  return __builtin_shufflevector(low, high, 0, 1, 2, 3);
}
#endif

}  // namespace
}  // namespace strata
