// What the vector types of AVX2 and AVX-512 share. Part of dots.inl.

namespace strata {
namespace {

STRATA_INLINE __m128i lane_at(const uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
STRATA_INLINE __m256i two_lanes_at(const uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
STRATA_INLINE float half_of(uint16_t bits) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}
STRATA_INLINE float half_at(const uint8_t* from) {
  uint16_t bits;
  __builtin_memcpy(&bits, from, sizeof bits);
  return half_of(bits);
}

// 2^(e - 128), as e8m0_half_to_float: the two lowest are subnormal.
STRATA_INLINE __m256 eight_e8m0(uint64_t bytes) {
  const __m256i e = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(bytes)));
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  const __m256i low = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
  return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, low, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e)));
}

// Half of ue4m3_to_float, which takes no notice of bit 7 but where it tells the one code that is no number.
STRATA_INLINE __m256 eight_halved_ue4m3(uint64_t bytes) {
  const __m256i most = _mm256_set1_epi32(0x7f);
  const __m256i byte = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(bytes)));
  const __m256i v = _mm256_and_si256(byte, most);
  const __m256 normal = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(v, _mm256_set1_epi32(119 << 3)), 20));
  const __m256 low = _mm256_mul_ps(_mm256_cvtepi32_ps(v), _mm256_set1_ps(0x1p-10f));
  const __m256i is_low = _mm256_cmpgt_epi32(_mm256_set1_epi32(8), v);
  const __m256 value = _mm256_blendv_ps(normal, low, _mm256_castsi256_ps(is_low));
  return _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(byte, most)), value);
}

// Three bits of each of eight words, from bit `at` on.
template <int at>
STRATA_INLINE __m256 eight_threes(const uint8_t* words) {
  const __m128i bits = _mm_and_si128(_mm_srli_epi16(lane_at(words), at), _mm_set1_epi16(7));
  return _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(bits));
}

}  // namespace
}  // namespace strata
