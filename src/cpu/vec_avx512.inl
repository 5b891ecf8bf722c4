// The tiny vector type of the integer dots on AVX-512 with VNNI, VBMI and GFNI: 64 code bytes, 16 sums, 16 floats, each
// in one register. What the names mean: vec_generic.inl. Part of dots.inl.

namespace strata {
namespace {

#define STRATA_OWN_CODE_BOOKS 1
constexpr const uint64_t* kIq1sOffsetWords = kIq1sOffsetGrid.data();

struct Bytes {
  __m512i v;
};
struct Ints {
  __m512i v;
};
struct Floats {
  __m512 v;
};
struct Codes {
  __m512i v[4];
};

STRATA_INLINE Bytes splat_byte(int x) {
  return {_mm512_set1_epi8(static_cast<char>(x))};
}
STRATA_INLINE Bytes operator&(Bytes a, Bytes b) {
  return {_mm512_and_si512(a.v, b.v)};
}
STRATA_INLINE Bytes operator|(Bytes a, Bytes b) {
  return {_mm512_or_si512(a.v, b.v)};
}
STRATA_INLINE Bytes operator^(Bytes a, Bytes b) {
  return {_mm512_xor_si512(a.v, b.v)};
}
// Bits of neighbouring bytes come in from above (below): mask them off.
template <int n>
STRATA_INLINE Bytes shift_right(Bytes a) {
  return {_mm512_srli_epi16(a.v, n)};
}
template <int n>
STRATA_INLINE Bytes shift_left(Bytes a) {
  return {_mm512_slli_epi16(a.v, n)};
}
// A lane is 16 bytes.
STRATA_INLINE Bytes four_lanes(const uint8_t* a, const uint8_t* b, const uint8_t* c, const uint8_t* d) {
  __m512i v = _mm512_castsi128_si512(lane_at(a));
  v = _mm512_inserti32x4(v, lane_at(b), 1);
  v = _mm512_inserti32x4(v, lane_at(c), 2);
  return {_mm512_inserti32x4(v, lane_at(d), 3)};
}
STRATA_INLINE Bytes same_lanes(const uint8_t* a) {
  return {_mm512_broadcast_i32x4(lane_at(a))};
}
// Lanes a, a, b, b.
STRATA_INLINE Bytes twin_lanes(const uint8_t* a, const uint8_t* b) {
  const __m256i low = _mm256_broadcastsi128_si256(lane_at(a)), high = _mm256_broadcastsi128_si256(lane_at(b));
  return {_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)};
}
// Sixteen dwords, `stride` bytes between fours.
STRATA_INLINE Bytes load_dwords(const uint8_t* from, int stride) {
  return four_lanes(from, from + stride, from + 2 * stride, from + 3 * stride);
}
// Lane i shifted right by its own number of bits, as two words of 64.
template <int a, int b, int c, int d>
STRATA_INLINE Bytes shift_lanes(Bytes v) {
  return {_mm512_srlv_epi64(v.v, _mm512_setr_epi64(a, a, b, b, c, c, d, d))};
}
// Within a lane: the first (second) eight bytes twice, the second time shifted right by 4 bits.
STRATA_INLINE Bytes halves_of_first(Bytes v) {
  return {_mm512_srlv_epi64(_mm512_unpacklo_epi64(v.v, v.v), _mm512_setr_epi64(0, 4, 0, 4, 0, 4, 0, 4))};
}
STRATA_INLINE Bytes halves_of_second(Bytes v) {
  return {_mm512_srlv_epi64(_mm512_unpackhi_epi64(v.v, v.v), _mm512_setr_epi64(0, 4, 0, 4, 0, 4, 0, 4))};
}
STRATA_INLINE Bytes table_of_16(const int8_t* table, int add) {
  const __m128i t = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm512_broadcast_i32x4(_mm_add_epi8(t, _mm_set1_epi8(static_cast<char>(add))))};
}
STRATA_INLINE Bytes look_up(Bytes table, Bytes index) {
  return {_mm512_shuffle_epi8(table.v, index.v)};
}
// A byte is `value` where its bit is set, else 0; lane q has the 16 bits of words[q].
STRATA_INLINE Bytes where_bits(uint16_t a, uint16_t b, uint16_t c, uint16_t d, int value) {
  const uint64_t bits = a | static_cast<uint64_t>(b) << 16 | static_cast<uint64_t>(c) << 32 | static_cast<uint64_t>(d) << 48;
  return {_mm512_maskz_set1_epi8(bits, static_cast<char>(value))};
}
// Which of 64 codes are negative, for the eights with even and odd numbers of the first 8 groups, then of the others.
struct Signs {
  alignas(64) uint64_t of_vector[4];
};
// 32 sign bytes in natural order, one for 8 elements.
STRATA_INLINE Signs signs_of(__m256i bytes) {
  const __m256i order = _mm256_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15, 16, 18, 20, 22, 24, 26, 28,
                                         30, 17, 19, 21, 23, 25, 27, 29, 31);
  Signs s;
  _mm256_store_si256(reinterpret_cast<__m256i*>(s.of_vector), _mm256_permutexvar_epi8(order, bytes));
  return s;
}
STRATA_INLINE Signs load_signs(const uint8_t* bytes) {
  return signs_of(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)));
}
// Bytes of which the low 7 bits are a sign code: bit 7 makes the number of ones even.
STRATA_INLINE __m256i with_even_ones(__m256i codes) {
  return _mm256_gf2p8affine_epi64_epi8(codes, _mm256_set1_epi64x(0x010204081020407f), 0);
}
// Indices of eights in natural order: two for a group.
struct Indices32 {
  __m512i v;
};
// Sixteen 9-bit indices with a 7-bit sign code above, in words.
STRATA_INLINE Indices32 low_9_bits(const uint8_t* words) {
  return {_mm512_and_si512(_mm512_loadu_si512(words), _mm512_set1_epi16(511))};
}
STRATA_INLINE Signs even_signs_of_words(const uint8_t* words) {
  return signs_of(with_even_ones(_mm512_cvtepi16_epi8(_mm512_srli_epi16(_mm512_loadu_si512(words), 9))));
}
// Four 7-bit sign codes in each of eight dwords, which lie behind each other or are the upper halves of eight bytes.
template <int stride>
STRATA_INLINE __m256i even_sign_bytes(const uint8_t* from) {
  __m512i v;
  if constexpr (stride == 4) {
    v = _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  } else {
    static_assert(stride == 8);
    v = _mm512_srli_epi64(_mm512_loadu_si512(from), 32);
  }
  const __m512i parts = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(0x1c150e0700), v);
  return with_even_ones(_mm512_cvtepi64_epi32(parts));
}
template <int stride>
STRATA_INLINE Signs even_signs_of_dwords(const uint8_t* from) {
  return signs_of(even_sign_bytes<stride>(from));
}
// 32 bytes as indices; four of every eight bytes as indices.
STRATA_INLINE Indices32 byte_indices(const uint8_t* from) {
  return {_mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
}
STRATA_INLINE Indices32 byte_indices_of_eights(const uint8_t* from) {
  return {_mm512_cvtepu8_epi16(_mm512_cvtepi64_epi32(_mm512_loadu_si512(from)))};
}
// Index 4g + k gets bits [step * k, step * k + bits) of the g-th item as its bits 8 and up.
template <int step, int bits>
STRATA_INLINE Indices32 with_high_bits(Indices32 low, __m512i items) {
  constexpr long long control = (step * 0LL) << 8 | (step * 1LL) << 24 | (step * 2LL) << 40 | (step * 3LL) << 56;
  const __m512i parts = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(control), items);
  return {_mm512_or_si512(low.v, _mm512_and_si512(parts, _mm512_set1_epi16(((1 << bits) - 1) << 8)))};
}
template <int step, int bits>
STRATA_INLINE Indices32 with_high_bits_of_bytes(Indices32 low, const uint8_t* eight) {
  return with_high_bits<step, bits>(low, _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(eight))));
}
template <int step, int bits>
STRATA_INLINE Indices32 with_high_bits_of_words(Indices32 low, const uint8_t* eight) {
  return with_high_bits<step, bits>(low, _mm512_cvtepu16_epi64(lane_at(eight)));
}
// 4 x 4 dwords of every 128-bit lane are turned: with group 4q + p in lane q
// of the p-th argument, vector j gets dword j of group l in lane l.
STRATA_INLINE Codes turn(Bytes a, Bytes b, Bytes c, Bytes d) {
  const __m512i ab_low = _mm512_unpacklo_epi32(a.v, b.v), ab_high = _mm512_unpackhi_epi32(a.v, b.v);
  const __m512i cd_low = _mm512_unpacklo_epi32(c.v, d.v), cd_high = _mm512_unpackhi_epi32(c.v, d.v);
  return {{_mm512_unpacklo_epi64(ab_low, cd_low), _mm512_unpackhi_epi64(ab_low, cd_low),
           _mm512_unpacklo_epi64(ab_high, cd_high), _mm512_unpackhi_epi64(ab_high, cd_high)}};
}
// The same from eights: even[h] has the first eight of groups 8h .. 8h + 7, odd[h] the second.
STRATA_INLINE Codes turn_eights(const __m512i* even, const __m512i* odd) {
  const __m512i low = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(1));
  return {{_mm512_permutex2var_epi32(even[0], low, even[1]), _mm512_permutex2var_epi32(even[0], high, even[1]),
           _mm512_permutex2var_epi32(odd[0], low, odd[1]), _mm512_permutex2var_epi32(odd[0], high, odd[1])}};
}
// Entries of eight bytes for all indices, in the order of Signs.
STRATA_INLINE void gather_eights(const uint64_t* grid, const Indices32& index, __m512i* even, __m512i* odd) {
  const __m256i halves[2] = {_mm512_castsi512_si256(index.v), _mm512_extracti64x4_epi64(index.v, 1)};
  for (int h = 0; h < 2; ++h) {
    const __m512i pairs = _mm512_cvtepu32_epi64(halves[h]);
    even[h] = _mm512_i64gather_epi64(_mm512_and_si512(pairs, _mm512_set1_epi64(0xffff)),
                                     reinterpret_cast<const long long*>(grid), 8);
    odd[h] = _mm512_i64gather_epi64(_mm512_srli_epi64(pairs, 16), reinterpret_cast<const long long*>(grid), 8);
  }
}
// Codes kOffset + v become kOffset - v where the sign bit is set.
template <int kOffset>
STRATA_INLINE Codes turn_signed_eights(const uint64_t* grid, const Indices32& index, const Signs& signs) {
  __m512i even[2], odd[2];
  gather_eights(grid, index, even, odd);
  const __m512i twice = _mm512_set1_epi8(static_cast<char>(2 * kOffset));
  for (int h = 0; h < 2; ++h) {
    even[h] = _mm512_mask_sub_epi8(even[h], signs.of_vector[2 * h], twice, even[h]);
    odd[h] = _mm512_mask_sub_epi8(odd[h], signs.of_vector[2 * h + 1], twice, odd[h]);
  }
  return turn_eights(even, odd);
}
// Bit i: whether the i-th eight has the lower shift; from the top bits of eight words, or of 32 halves of bytes.
STRATA_INLINE uint32_t minus_of_words(const uint8_t* words) {
  return _pdep_u32(_mm_movepi16_mask(lane_at(words)), 0x11111111) * 15;
}
STRATA_INLINE uint32_t minus_of_halves(const uint8_t* bytes) {
  uint64_t first, second;
  __builtin_memcpy(&first, bytes, sizeof first);
  __builtin_memcpy(&second, bytes + 8, sizeof second);
  return static_cast<uint32_t>(_pext_u64(first, 0x8888888888888888) | _pext_u64(second, 0x8888888888888888) << 16);
}
// The eights of IQ1; where the bit is set every code becomes less by 2.
STRATA_INLINE Codes turn_shifted_eights(const Indices32& index, uint32_t minus) {
  __m512i even[2], odd[2];
  gather_eights(kIq1sOffsetWords, index, even, odd);
  const __m512i two = _mm512_set1_epi8(2);
  const uint32_t sorted = _pext_u32(minus, 0x55555555) | _pext_u32(minus, 0xaaaaaaaa) << 16;
  for (int h = 0; h < 2; ++h) {
    even[h] = _mm512_mask_sub_epi64(even[h], static_cast<__mmask8>(sorted >> (8 * h)), even[h], two);
    odd[h] = _mm512_mask_sub_epi64(odd[h], static_cast<__mmask8>(sorted >> (16 + 8 * h)), odd[h], two);
  }
  return turn_eights(even, odd);
}

// Grids of fours are tables of bytes, 64 of them in a register.
struct Quarters {
  __m512i index;
  __mmask64 second, third, fourth;  // indices in that quarter of 256
};
STRATA_INLINE Quarters quarters_of(__m512i index) {
  const __mmask64 bit7 = _mm512_movepi8_mask(index), bit6 = _mm512_movepi8_mask(_mm512_slli_epi16(index, 1));
  return {index, _kandn_mask64(bit7, bit6), _kandn_mask64(bit6, bit7), _kand_mask64(bit7, bit6)};
}
STRATA_INLINE __m512i look_up_256(const uint8_t* table, const Quarters& q) {
  __m512i v = _mm512_permutexvar_epi8(q.index, _mm512_load_si512(table));
  v = _mm512_mask_permutexvar_epi8(v, q.second, q.index, _mm512_load_si512(table + 64));
  v = _mm512_mask_permutexvar_epi8(v, q.third, q.index, _mm512_load_si512(table + 128));
  return _mm512_mask_permutexvar_epi8(v, q.fourth, q.index, _mm512_load_si512(table + 192));
}
// 64 nibbles: bit j of the i-th is the sign of element j of the i-th four.
STRATA_INLINE __m512i sign_nibbles(__m256i bytes) {
  const __m512i wide = _mm512_cvtepu8_epi16(bytes);
  return _mm512_or_si512(wide, _mm512_slli_epi16(wide, 4));
}
// Elements in pairs, as positions in a list of 8 values: bits 3 and 7 of every byte are zero, so a shuffle needs no mask.
STRATA_INLINE Codes signed_fours(__m512i first_pair, __m512i second_pair, const uint8_t* values, __m512i signs) {
  const __m512i table = _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(values)));
  const __m512i twice = _mm512_set1_epi8(static_cast<char>(2 * kIq3Offset));
  const auto element = [&](__m512i position, __mmask64 minus) __attribute__((always_inline)) {
    const __m512i v = _mm512_shuffle_epi8(table, position);
    return _mm512_mask_sub_epi8(v, minus, twice, v);
  };
  return {{element(first_pair, _mm512_movepi8_mask(_mm512_slli_epi16(signs, 7))),
           element(_mm512_srli_epi16(first_pair, 4), _mm512_movepi8_mask(_mm512_slli_epi16(signs, 6))),
           element(second_pair, _mm512_movepi8_mask(_mm512_slli_epi16(signs, 5))),
           element(_mm512_srli_epi16(second_pair, 4), _mm512_movepi8_mask(_mm512_slli_epi16(signs, 4)))}};
}
constexpr ActOrder kFoursOrder = ActOrder::spread;
constexpr const uint8_t* kIq3xxsValueBytes = kIq3xxsOffsetValues.data();
constexpr const uint8_t* kIq3sValueBytes = kIq3sOffsetValues.data();
// Indices of a byte, and seven-bit sign codes in eight dwords.
STRATA_INLINE Codes iq3_xxs_codes(const uint8_t* low, const uint8_t* dwords) {
  const Quarters q = quarters_of(_mm512_loadu_si512(low));
  return signed_fours(look_up_256(kIq3xxsPairs.of_elements[0], q), look_up_256(kIq3xxsPairs.of_elements[1], q),
                      kIq3xxsValueBytes, sign_nibbles(even_sign_bytes<4>(dwords)));
}
// The same with a ninth index bit and sign bytes.
STRATA_INLINE Codes iq3_s_codes(const uint8_t* low, const uint8_t* high, const uint8_t* signs) {
  const Quarters q = quarters_of(_mm512_loadu_si512(low));
  __mmask64 bit8;
  __builtin_memcpy(&bit8, high, sizeof bit8);
  const auto pair = [&](int p) __attribute__((always_inline)) {
    const uint8_t* table = kIq3sPairs.of_elements[p];
    return _mm512_mask_mov_epi8(look_up_256(table, q), bit8, look_up_256(table + 256, q));
  };
  return signed_fours(pair(0), pair(1), kIq3sValueBytes,
                      sign_nibbles(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(signs))));
}
STRATA_INLINE Codes as_codes(Bytes a, Bytes b, Bytes c, Bytes d) {
  return {{a.v, b.v, c.v, d.v}};
}
STRATA_INLINE void store_codes(const Codes& c, uint8_t* to, int add) {
  const __m512i by = _mm512_set1_epi8(static_cast<char>(add));
  for (int j = 0; j < 4; ++j) _mm512_store_si512(to + 64 * j, _mm512_add_epi8(c.v[j], by));
}

// Of codes in a decoded tile; and how many weights and rows of it are multiplied at once.
constexpr int kTileOffset(int) {
  return 128;
}
constexpr int kTileW = 4, kTileX = 4;
constexpr int kRowsTogether = 4;  // while weights are decoded
constexpr int kParts16 = 1;

struct CodePart {
  __m512i v;
};
STRATA_INLINE CodePart part_of(const Codes& c, int j, int) {
  return {c.v[j]};
}
STRATA_INLINE CodePart load_part_of(const uint8_t* codes, int j, int) {
  return {_mm512_load_si512(codes + 64 * j)};
}
template <int kOffset>
struct DotPart {
  __m512i v;
};
template <int kOffset>
STRATA_INLINE void dot_start(DotPart<kOffset>& part, const ActBlock& x, int) {
  if constexpr (kOffset == 0) {
    part.v = _mm512_setzero_si512();
  } else {
    const __m512i start = _mm512_load_si512(x.start);
    part.v = kOffset == 128 ? start : _mm512_srai_epi32(start, 7 - __builtin_ctz(kOffset));
  }
}
template <int kOffset>
STRATA_INLINE void dot_step(DotPart<kOffset>& part, CodePart codes, const ActBlock& x, int j, int) {
  part.v = _mm512_dpbusd_epi32(part.v, codes.v, _mm512_load_si512(x.codes + 64 * j));
}
template <int kOffset>
STRATA_INLINE void add_dot(Floats& sum, DotPart<kOffset> part, const ActBlock& x, const float* scale, int) {
  const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(part.v), _mm512_load_ps(scale));
  sum.v = _mm512_fmadd_ps(scaled, _mm512_load_ps(x.scale), sum.v);
}
template <int kOffset>
STRATA_INLINE Ints dot(const Codes& c, const ActBlock& x) {
  DotPart<kOffset> part;
  dot_start(part, x, 0);
  for (int j = 0; j < 4; ++j) dot_step(part, part_of(c, j, 0), x, j, 0);
  return {part.v};
}

STRATA_INLINE Floats to_floats(Ints a) {
  return {_mm512_cvtepi32_ps(a.v)};
}
STRATA_INLINE Floats load_floats(const float* from) {
  return {_mm512_load_ps(from)};
}
STRATA_INLINE void store_floats(float* to, Floats a) {
  _mm512_store_ps(to, a.v);
}
STRATA_INLINE Floats splat_float(float x) {
  return {_mm512_set1_ps(x)};
}
STRATA_INLINE Floats operator*(Floats a, Floats b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
STRATA_INLINE Floats operator+(Floats a, Floats b) {
  return {_mm512_add_ps(a.v, b.v)};
}
STRATA_INLINE Floats operator-(Floats a, Floats b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
STRATA_INLINE Floats times_plus(Floats a, Floats b, Floats c) {  // a * b + c
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
// Zero in the lanes whose bit is not set.
STRATA_INLINE Floats keep_lanes(Floats a, uint32_t lanes) {
  return {_mm512_maskz_mov_ps(static_cast<__mmask16>(lanes), a.v)};
}
// Sixteen signed bytes.
STRATA_INLINE Floats floats_of_vector(__m128i bytes) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
}
STRATA_INLINE Floats floats_of_bytes(uint64_t first, uint64_t second) {
  return floats_of_vector(_mm_set_epi64x(static_cast<long long>(second), static_cast<long long>(first)));
}
STRATA_INLINE Floats floats_of_low_halves(const uint8_t* from) {
  return floats_of_vector(_mm_and_si128(lane_at(from), _mm_set1_epi8(15)));
}
STRATA_INLINE Floats floats_of_high_halves(const uint8_t* from) {
  return floats_of_vector(_mm_and_si128(_mm_srli_epi16(lane_at(from), 4), _mm_set1_epi8(15)));
}
// Eight values, of 32 elements each, to their two groups.
STRATA_INLINE Floats doubled(__m256 eight) {
  const __m512i order = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  return {_mm512_permutexvar_ps(order, _mm512_castps256_ps512(eight))};
}
STRATA_INLINE Floats doubled_halves(uint64_t first_four, uint64_t second_four) {
  return doubled(_mm256_cvtph_ps(_mm_set_epi64x(static_cast<long long>(second_four), static_cast<long long>(first_four))));
}
STRATA_INLINE Floats doubled_bytes(uint64_t eight) {
  return doubled(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(static_cast<long long>(eight)))));
}
STRATA_INLINE Floats doubled_e8m0(uint64_t eight) {
  return doubled(eight_e8m0(eight));
}
STRATA_INLINE Floats halved_ue4m3(uint64_t first, uint64_t second) {
  return {_mm512_insertf32x8(_mm512_castps256_ps512(eight_halved_ue4m3(first)), eight_halved_ue4m3(second), 1)};
}
// Four values, of 64 elements each.
STRATA_INLINE Floats four_times_halves(uint64_t four) {
  const __m512i order = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  return {_mm512_permutexvar_ps(order, _mm512_castps128_ps512(_mm_cvtph_ps(_mm_cvtsi64_si128(static_cast<long long>(four)))))};
}
// The top 4 bits of eight dwords that lie `stride` bytes apart.
template <int stride>
STRATA_INLINE Floats doubled_top_nibbles(const uint8_t* from) {
  __m256i v;
  if constexpr (stride == 4) {
    v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  } else {
    static_assert(stride == 8);
    v = _mm512_cvtepi64_epi32(_mm512_srli_epi64(_mm512_loadu_si512(from), 32));
  }
  return doubled(_mm256_cvtepi32_ps(_mm256_srli_epi32(v, 28)));
}
template <int at>
STRATA_INLINE Floats doubled_threes(const uint8_t* words) {
  return doubled(eight_threes<at>(words));
}
// Eight fields of n bits to bytes.
template <int n>
STRATA_INLINE uint64_t fields_to_bytes(uint64_t bits) {
  return _pdep_u64(bits, 0x0101010101010101u * ((1 << n) - 1));
}
// Four fields of 3 bits in each of two words to bytes.
STRATA_INLINE uint64_t threes_of_two_words(uint32_t words) {
  return fields_to_bytes<3>(_pext_u64(words, 0x0fff0fff));
}

STRATA_INLINE void arrange(const int8_t* natural, bool spread, int8_t* to) {
  Bytes v[4];
  for (int p = 0; p < 4; ++p) {
    const auto* at = reinterpret_cast<const uint8_t*>(natural) + 16 * p;
    v[p] = four_lanes(at, at + 64, at + 128, at + 192);
    const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    if (spread) v[p] = {_mm512_shuffle_epi8(v[p].v, _mm512_broadcast_i32x4(order))};
  }
  const Codes c = turn(v[0], v[1], v[2], v[3]);
  for (int j = 0; j < 4; ++j) _mm512_store_si512(to + 64 * j, c.v[j]);
}
// The largest of 16 dwords of each of 16 registers: lane l has that of a[l].
STRATA_INLINE __m512i largest_of_each(const __m512i* a) {
  __m512i quarters[4];
  for (int i = 0; i < 4; ++i) {
    const auto halves = [](__m512i u, __m512i v) __attribute__((always_inline)) {
      return _mm512_max_epi32(_mm512_shuffle_i32x4(u, v, 0x44), _mm512_shuffle_i32x4(u, v, 0xee));
    };
    const __m512i ab = halves(a[i], a[i + 4]), cd = halves(a[i + 8], a[i + 12]);
    quarters[i] = _mm512_max_epi32(_mm512_shuffle_i32x4(ab, cd, 0x88), _mm512_shuffle_i32x4(ab, cd, 0xdd));
  }
  const auto pairs = [](__m512i u, __m512i v) __attribute__((always_inline)) {
    return _mm512_max_epi32(_mm512_unpacklo_epi32(u, v), _mm512_unpackhi_epi32(u, v));
  };
  const __m512i low = pairs(quarters[0], quarters[1]), high = pairs(quarters[2], quarters[3]);
  return _mm512_max_epi32(_mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high));
}
#define STRATA_OWN_QUANTISE 1
// As quantise_block of dots.inl, with scale_of_group for all groups at once.
STRATA_INLINE void quantise_block(const float* x, int groups, bool spread, ActBlock* to) {
  __m512i magnitudes[kActGroups];
  for (int g = 0; g < kActGroups; ++g) {
    const __m512i bits = _mm512_loadu_si512(x + 16 * (g % groups));
    magnitudes[g] = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
  }
  const __m512i bits = largest_of_each(magnitudes);
  const __m512 highest = _mm512_castsi512_ps(bits);
  const __mmask16 finite = _mm512_cmplt_epi32_mask(bits, _mm512_set1_epi32(0x7f800000));
  const __mmask16 counts = finite & _mm512_cmp_ps_mask(highest, _mm512_set1_ps(1e-34f), _CMP_GE_OQ);
  __m512 scale = _mm512_maskz_div_ps(counts, highest, _mm512_set1_ps(127.0f));
  scale = _mm512_mask_mov_ps(_mm512_set1_ps(__builtin_nanf("")), finite, scale);
  alignas(64) float inverse[kActGroups];
  _mm512_store_ps(inverse, _mm512_maskz_div_ps(counts, _mm512_set1_ps(127.0f), highest));
  alignas(64) int8_t codes[kActElems];
  for (int g = 0; g < kActGroups; ++g) {
    const __m512 v = _mm512_mul_ps(_mm512_loadu_ps(x + 16 * (g % groups)), _mm512_set1_ps(inverse[g]));
    _mm_store_si128(reinterpret_cast<__m128i*>(codes + 16 * g), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
  }
  arrange(codes, spread, to->codes);
  __m512i sum = _mm512_setzero_si512();
  for (int j = 0; j < 4; ++j) {
    sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(1), _mm512_load_si512(to->codes + 64 * j));
  }
  _mm512_store_ps(to->scale, scale);
  _mm512_store_si512(to->start, _mm512_slli_epi32(_mm512_sub_epi32(_mm512_setzero_si512(), sum), 7));
  _mm512_store_ps(to->sum, _mm512_mul_ps(scale, _mm512_cvtepi32_ps(sum)));
}


// The sums of four times 16 lanes: lane i plus i + 8, then i + 4, i + 2, i + 1.
STRATA_INLINE void four_sums(Floats a, Floats b, Floats c, Floats d, float* to) {
  const auto pair = [](Floats u, Floats v) __attribute__((always_inline)) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(u.v, v.v, 0x44), _mm512_shuffle_f32x4(u.v, v.v, 0xee));
  };
  const __m512 ab = pair(a, b), cd = pair(c, d);  // halves a, b; c, d
  const __m512 q = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
  const __m512 two = _mm512_add_ps(q, _mm512_permute_ps(q, 0x4e));
  const __m512 one = _mm512_add_ps(two, _mm512_permute_ps(two, 0xb1));  // quarters a, b, c, d
  const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  _mm_storeu_ps(to, _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, one)));
}

}  // namespace
}  // namespace strata
