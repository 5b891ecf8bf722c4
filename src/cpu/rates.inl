// The text of rates.h for every instruction set; part of the kernels, whose rules hold here as well. Each sum feeds its
// own next product, so that nothing can be computed ahead of the loop; there are enough of them to hide that they wait.
#include "cpu/rates.h"

namespace strata {
namespace {

#if STRATA_LANES == 16
typedef __m512i RateInts;
constexpr int64_t kRateProducts = 64;
STRATA_INLINE RateInts rate_step(RateInts sum, RateInts by) {
  return _mm512_dpbusd_epi32(sum, by, sum);
}
#elif STRATA_LANES == 8
typedef __m256i RateInts;
constexpr int64_t kRateProducts = 32;
STRATA_INLINE RateInts rate_step(RateInts sum, RateInts by) {
#if defined(__AVXVNNI__)
  return _mm256_dpbusd_avx_epi32(sum, by, sum);
#else
  return _mm256_add_epi16(sum, _mm256_maddubs_epi16(by, sum));
#endif
}
#else
typedef uint16_t RateInts __attribute__((vector_size(16)));
constexpr int64_t kRateProducts = 8;
STRATA_INLINE RateInts rate_step(RateInts sum, RateInts by) {
  return sum * by + by;
}
#endif

int64_t int8_products(int64_t rounds, int32_t* result) {
  constexpr int kSums = STRATA_LANES == 16 ? 12 : 10;
  RateInts by, sum[kSums];
  __builtin_memcpy(&by, result, sizeof by);  // a constant could be multiplied by shifting
  for (int i = 0; i < kSums; ++i) __builtin_memset(&sum[i], i + 1, sizeof sum[i]);
  for (int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < kSums; ++i) sum[i] = rate_step(sum[i], by);
  }
  for (int i = 1; i < kSums; ++i) sum[0] ^= sum[i];
  __builtin_memset(result, 0, 16 * sizeof(int32_t));
  __builtin_memcpy(result, &sum[0], sizeof sum[0]);
  return rounds * kSums * kRateProducts;
}

// Towards b / (1 - a), so never too small and never too large.
STRATA_INLINE void rate_step(Lanes16& sum, Vec a, Vec b) {
  for (int i = 0; i < kParts; ++i) {
#if STRATA_LANES == 16
    sum.part[i] = (Vec)_mm512_fmadd_ps((__m512)sum.part[i], (__m512)a, (__m512)b);
#elif STRATA_LANES == 8
    sum.part[i] = (Vec)_mm256_fmadd_ps((__m256)sum.part[i], (__m256)a, (__m256)b);
#else
    sum.part[i] = sum.part[i] * a + b;
#endif
  }
}

int64_t float_products(int64_t rounds, float* result) {
  constexpr int kSums = 12 / kParts;
  const Vec a = splat(0.5f), b = splat(1.0f);
  Lanes16 sum[kSums];
  // Equal sums would be computed once.
  for (int i = 0; i < 12; ++i) sum[i / kParts].part[i % kParts] = splat(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < kSums; ++i) rate_step(sum[i], a, b);
  }
  for (int i = 1; i < kSums; ++i) add(sum[0], sum[i]);
  for (int i = 0; i < kParts; ++i) store(result + i * kLanes, sum[0].part[i]);
  return rounds * kSums * 16;
}

uint64_t read_memory(const std::byte* from, size_t bytes) {
  typedef uint64_t Words __attribute__((vector_size(4 * kLanes)));
  constexpr int kSums = 8;
  constexpr size_t kStep = kSums * sizeof(Words), kAhead = 4096;
  Words sum[kSums] = {};
  for (size_t at = 0; at < bytes; at += kStep) {
    for (size_t line = 0; line < kStep; line += 64) __builtin_prefetch(from + at + kAhead + line);
    for (int i = 0; i < kSums; ++i) {
      Words words;
      __builtin_memcpy(&words, from + at + static_cast<size_t>(i) * sizeof words, sizeof words);
      sum[i] ^= words;
    }
  }
  for (int i = 1; i < kSums; ++i) sum[0] ^= sum[i];
  uint64_t all = 0;
  for (int i = 0; i < kLanes / 2; ++i) all ^= sum[0][i];
  return all;
}

constexpr RateKernels kRateKernels = {int8_products, float_products, read_memory};

}  // namespace
}  // namespace strata
