// The tiny vector type of the integer dots on AVX2 with FMA and F16C: what is one register of 512 bits elsewhere is two
// here, lanes 0 and 1, then 2 and 3. Entries of code books are loaded one by one, since gathering is slow on many of
// the processors that end here, as are the instructions that spread bits. With AVX-VNNI the dots alone are others. What
// the names mean: vec_generic.inl. Part of dots.inl.

namespace strata {
namespace {

struct Bytes {
  __m256i v[2];
};
struct Ints {
  __m256i v[2];
};
struct Floats {
  __m256 v[2];
};
struct Codes {
  __m256i v[4][2];
};

STRATA_INLINE __m256i two_lanes(const uint8_t* a, const uint8_t* b) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(lane_at(a)), lane_at(b), 1);
}
STRATA_INLINE __m256i twice(__m128i lane) {
  return _mm256_broadcastsi128_si256(lane);
}
STRATA_INLINE __m256i bytes_of(int x) {
  return _mm256_set1_epi8(static_cast<char>(x));
}
STRATA_INLINE __m256i qword_bytes(uint64_t first, uint64_t second, uint64_t third, uint64_t fourth) {
  return _mm256_setr_epi64x(static_cast<long long>(first), static_cast<long long>(second),
                            static_cast<long long>(third), static_cast<long long>(fourth));
}

STRATA_INLINE Bytes splat_byte(int x) {
  return {{bytes_of(x), bytes_of(x)}};
}
STRATA_INLINE Bytes operator&(Bytes a, Bytes b) {
  return {{_mm256_and_si256(a.v[0], b.v[0]), _mm256_and_si256(a.v[1], b.v[1])}};
}
STRATA_INLINE Bytes operator|(Bytes a, Bytes b) {
  return {{_mm256_or_si256(a.v[0], b.v[0]), _mm256_or_si256(a.v[1], b.v[1])}};
}
STRATA_INLINE Bytes operator^(Bytes a, Bytes b) {
  return {{_mm256_xor_si256(a.v[0], b.v[0]), _mm256_xor_si256(a.v[1], b.v[1])}};
}
template <int n>
STRATA_INLINE Bytes shift_right(Bytes a) {
  return {{_mm256_srli_epi16(a.v[0], n), _mm256_srli_epi16(a.v[1], n)}};
}
template <int n>
STRATA_INLINE Bytes shift_left(Bytes a) {
  return {{_mm256_slli_epi16(a.v[0], n), _mm256_slli_epi16(a.v[1], n)}};
}
STRATA_INLINE Bytes four_lanes(const uint8_t* a, const uint8_t* b, const uint8_t* c, const uint8_t* d) {
  return {{two_lanes(a, b), two_lanes(c, d)}};
}
STRATA_INLINE Bytes same_lanes(const uint8_t* a) {
  return {{twice(lane_at(a)), twice(lane_at(a))}};
}
STRATA_INLINE Bytes twin_lanes(const uint8_t* a, const uint8_t* b) {
  return {{twice(lane_at(a)), twice(lane_at(b))}};
}
STRATA_INLINE Bytes load_dwords(const uint8_t* from, int stride) {
  return four_lanes(from, from + stride, from + 2 * stride, from + 3 * stride);
}
template <int a, int b, int c, int d>
STRATA_INLINE Bytes shift_lanes(Bytes v) {
  return {{_mm256_srlv_epi64(v.v[0], _mm256_setr_epi64x(a, a, b, b)),
           _mm256_srlv_epi64(v.v[1], _mm256_setr_epi64x(c, c, d, d))}};
}
STRATA_INLINE Bytes halves_of_first(Bytes v) {
  const __m256i by = _mm256_setr_epi64x(0, 4, 0, 4);
  return {{_mm256_srlv_epi64(_mm256_unpacklo_epi64(v.v[0], v.v[0]), by),
           _mm256_srlv_epi64(_mm256_unpacklo_epi64(v.v[1], v.v[1]), by)}};
}
STRATA_INLINE Bytes halves_of_second(Bytes v) {
  const __m256i by = _mm256_setr_epi64x(0, 4, 0, 4);
  return {{_mm256_srlv_epi64(_mm256_unpackhi_epi64(v.v[0], v.v[0]), by),
           _mm256_srlv_epi64(_mm256_unpackhi_epi64(v.v[1], v.v[1]), by)}};
}
STRATA_INLINE Bytes table_of_16(const int8_t* table, int add) {
  const __m128i t = lane_at(reinterpret_cast<const uint8_t*>(table));
  const __m256i both = twice(_mm_add_epi8(t, _mm_set1_epi8(static_cast<char>(add))));
  return {{both, both}};
}
STRATA_INLINE Bytes look_up(Bytes table, Bytes index) {
  return {{_mm256_shuffle_epi8(table.v[0], index.v[0]), _mm256_shuffle_epi8(table.v[1], index.v[1])}};
}

// --- bits -----------------------------------------------------------------------------------------------------------

// All ones where the bit of a byte is set; bit i % 8 belongs to byte i.
STRATA_INLINE __m256i where_own_bit(__m256i bits) {
  const __m256i own = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
  return _mm256_cmpeq_epi8(_mm256_and_si256(bits, own), own);
}
constexpr uint64_t kEightTimes = 0x0101010101010101u;

STRATA_INLINE Bytes where_bits(uint16_t a, uint16_t b, uint16_t c, uint16_t d, int value) {
  const uint64_t bits =
      a | static_cast<uint64_t>(b) << 16 | static_cast<uint64_t>(c) << 32 | static_cast<uint64_t>(d) << 48;
  const __m256i all = _mm256_set1_epi64x(static_cast<long long>(bits));
  const __m256i low = _mm256_shuffle_epi8(all, qword_bytes(0, kEightTimes, 2 * kEightTimes, 3 * kEightTimes));
  const __m256i high =
      _mm256_shuffle_epi8(all, qword_bytes(4 * kEightTimes, 5 * kEightTimes, 6 * kEightTimes, 7 * kEightTimes));
  return {
      {_mm256_and_si256(where_own_bit(low), bytes_of(value)), _mm256_and_si256(where_own_bit(high), bytes_of(value))}};
}

// Sign bytes 0 to 15 in both lanes of the first register, 16 to 31 in those of the second.
struct Signs {
  __m256i v[2];
};
STRATA_INLINE Signs load_signs(const uint8_t* bytes) {
  return {{twice(lane_at(bytes)), twice(lane_at(bytes + 16))}};
}
STRATA_INLINE __m256i with_even_ones(__m256i codes) {
  const __m256i odd = twice(_mm_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0));
  const __m256i low = _mm256_shuffle_epi8(odd, _mm256_and_si256(codes, bytes_of(15)));
  const __m256i high = _mm256_shuffle_epi8(odd, _mm256_and_si256(_mm256_srli_epi16(codes, 4), bytes_of(7)));
  return _mm256_or_si256(codes, _mm256_xor_si256(low, high));
}
// From two registers of which one was packed behind the other within each lane.
STRATA_INLINE Signs signs_of_packed(__m256i bytes) {
  return {{_mm256_permute4x64_epi64(bytes, 0x88), _mm256_permute4x64_epi64(bytes, 0xdd)}};
}
template <int kOffset, int p>
STRATA_INLINE Bytes negate(Bytes codes, const Signs& signs) {
  constexpr uint64_t at = 2 * p * kEightTimes;
  const __m256i own = qword_bytes(at, at + kEightTimes, at + 8 * kEightTimes, at + 9 * kEightTimes);
  Bytes result;
  for (int h = 0; h < 2; ++h) {
    const __m256i minus = where_own_bit(_mm256_shuffle_epi8(signs.v[h], own));
    result.v[h] =
        _mm256_add_epi8(_mm256_xor_si256(codes.v[h], minus), _mm256_and_si256(minus, bytes_of(2 * kOffset + 1)));
  }
  return result;
}
STRATA_INLINE Signs even_signs_of_words(const uint8_t* words) {
  const __m256i low = _mm256_srli_epi16(two_lanes_at(words), 9), high = _mm256_srli_epi16(two_lanes_at(words + 32), 9);
  return signs_of_packed(with_even_ones(_mm256_packus_epi16(low, high)));
}
// The upper dword of every eight bytes, packed within each lane.
STRATA_INLINE __m256i upper_dwords(const uint8_t* from) {
  const __m256 low = _mm256_castsi256_ps(two_lanes_at(from)), high = _mm256_castsi256_ps(two_lanes_at(from + 32));
  return _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0xdd));
}
STRATA_INLINE __m256i four_sevens(__m256i v) {
  const __m256i a = _mm256_and_si256(v, _mm256_set1_epi32(0x7f));
  const __m256i b = _mm256_and_si256(_mm256_slli_epi32(v, 1), _mm256_set1_epi32(0x7f00));
  const __m256i c = _mm256_and_si256(_mm256_slli_epi32(v, 2), _mm256_set1_epi32(0x7f0000));
  const __m256i d = _mm256_and_si256(_mm256_slli_epi32(v, 3), _mm256_set1_epi32(0x7f000000));
  return _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
}
template <int stride>
STRATA_INLINE Signs even_signs_of_dwords(const uint8_t* from) {
  if constexpr (stride == 4) {
    const __m256i signs = with_even_ones(four_sevens(two_lanes_at(from)));
    return {{_mm256_permute4x64_epi64(signs, 0x44), _mm256_permute4x64_epi64(signs, 0xee)}};
  } else {
    static_assert(stride == 8);
    return signs_of_packed(with_even_ones(four_sevens(upper_dwords(from))));
  }
}

// --- code books -----------------------------------------------------------------------------------------------------

// Scalars cost less when they are read from memory than when they are taken out of a register, which compilers prefer.
template <class T>
STRATA_INLINE void keep_in_memory(T& value) {
  __asm__("" : "+m"(value));
}
struct Indices32 {
  alignas(32) uint16_t at[32];
};
STRATA_INLINE Indices32 indices_of(__m256i low, __m256i high) {
  Indices32 index;
  _mm256_store_si256(reinterpret_cast<__m256i*>(index.at), low);
  _mm256_store_si256(reinterpret_cast<__m256i*>(index.at + 16), high);
  keep_in_memory(index);
  return index;
}
// The first four of every eight bytes.
struct ByteIndicesOfEights {
  const uint8_t* from;
};
STRATA_INLINE __m128i two_entries(const uint64_t* grid, size_t a, size_t b) {
  return _mm_set_epi64x(static_cast<long long>(grid[b]), static_cast<long long>(grid[a]));
}
STRATA_INLINE __m128i two_entries(const uint64_t* grid, const ByteIndicesOfEights& index, int i) {
  const uint8_t* at = index.from + i / 4 * 8 + i % 4;
  return two_entries(grid, at[0], at[1]);
}
// Words that have just been written are read two at once, below four.
STRATA_INLINE __m128i two_entries(const uint64_t* grid, const Indices32& index, int i) {
  uint32_t two;
  __builtin_memcpy(&two, index.at + i, sizeof two);
  return two_entries(grid, two & 0xffff, two >> 16);
}
template <int p, class Index>
STRATA_INLINE Bytes eights(const uint64_t* grid, const Index& index) {
  constexpr int i = 2 * p;
  return {{_mm256_set_m128i(two_entries(grid, index, i + 8), two_entries(grid, index, i)),
           _mm256_set_m128i(two_entries(grid, index, i + 24), two_entries(grid, index, i + 16))}};
}
STRATA_INLINE Indices32 low_9_bits(const uint8_t* words) {
  const __m256i mask = _mm256_set1_epi16(511);
  return indices_of(_mm256_and_si256(two_lanes_at(words), mask), _mm256_and_si256(two_lanes_at(words + 32), mask));
}
STRATA_INLINE const uint8_t* byte_indices(const uint8_t* from) {
  return from;
}
STRATA_INLINE ByteIndicesOfEights byte_indices_of_eights(const uint8_t* from) {
  return {from};
}
// `items`: each as four words.
template <int step, int bits>
STRATA_INLINE __m256i high_bits_of_items(__m256i items) {
  constexpr int mask = (1 << bits) - 1;
  constexpr auto up = [](int k) { return static_cast<short>(step * k <= 8 ? 1 << (8 - step * k) : 0); };
  constexpr auto down = [](int k) { return static_cast<short>(step * k > 8 ? 1 << (24 - step * k) : 0); };
  const __m256i own = _mm256_and_si256(
      items, _mm256_set1_epi64x(static_cast<long long>(
                 static_cast<uint64_t>(mask) | static_cast<uint64_t>(mask) << (16 + step) |
                 static_cast<uint64_t>(mask) << (32 + 2 * step) | static_cast<uint64_t>(mask) << (48 + 3 * step))));
  const __m256i left =
      _mm256_mullo_epi16(own, twice(_mm_setr_epi16(up(0), up(1), up(2), up(3), up(0), up(1), up(2), up(3))));
  if constexpr (3 * step <= 8) return left;
  const __m256i right = _mm256_mulhi_epu16(
      own, twice(_mm_setr_epi16(down(0), down(1), down(2), down(3), down(0), down(1), down(2), down(3))));
  return _mm256_or_si256(left, right);
}
template <int step, int bits>
STRATA_INLINE Indices32 with_high_bits(const uint8_t* low, __m256i first, __m256i second) {
  return indices_of(_mm256_or_si256(_mm256_cvtepu8_epi16(lane_at(low)), high_bits_of_items<step, bits>(first)),
                    _mm256_or_si256(_mm256_cvtepu8_epi16(lane_at(low + 16)), high_bits_of_items<step, bits>(second)));
}
template <int step, int bits>
STRATA_INLINE Indices32 with_high_bits_of_bytes(const uint8_t* low, const uint8_t* eight) {
  uint64_t bytes;
  __builtin_memcpy(&bytes, eight, sizeof bytes);
  const __m256i all = _mm256_set1_epi64x(static_cast<long long>(bytes));
  constexpr uint64_t k = 0x8000800080008000u, word = 0x0001000100010001u;  // a byte, and none above it
  return with_high_bits<step, bits>(
      low, _mm256_shuffle_epi8(all, qword_bytes(k, k + word, k + 2 * word, k + 3 * word)),
      _mm256_shuffle_epi8(all, qword_bytes(k + 4 * word, k + 5 * word, k + 6 * word, k + 7 * word)));
}
template <int step, int bits>
STRATA_INLINE Indices32 with_high_bits_of_words(const uint8_t* low, const uint8_t* eight) {
  const __m256i all = twice(lane_at(eight));
  constexpr uint64_t k = 0x0100010001000100u, word = 0x0202020202020202u;
  return with_high_bits<step, bits>(
      low, _mm256_shuffle_epi8(all, qword_bytes(k, k + word, k + 2 * word, k + 3 * word)),
      _mm256_shuffle_epi8(all, qword_bytes(k + 4 * word, k + 5 * word, k + 6 * word, k + 7 * word)));
}
template <int p>
STRATA_INLINE Bytes lower_eights(Bytes v, uint32_t minus) {
  const __m256i all = _mm256_set1_epi64x(static_cast<long long>(static_cast<uint64_t>(minus)));
  constexpr uint64_t first = uint64_t{1} << (2 * p);
  const __m256i low = qword_bytes(first, first << 1, first << 8, first << 9);
  const __m256i high = qword_bytes(first << 16, first << 17, first << 24, first << 25);
  const __m256i two = bytes_of(2);
  return {{_mm256_sub_epi8(v.v[0], _mm256_and_si256(_mm256_cmpeq_epi64(_mm256_and_si256(all, low), low), two)),
           _mm256_sub_epi8(v.v[1], _mm256_and_si256(_mm256_cmpeq_epi64(_mm256_and_si256(all, high), high), two))}};
}
STRATA_INLINE uint32_t minus_of_bytes(__m128i first, __m128i second) {
  return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_set_m128i(second, first)));
}
STRATA_INLINE uint32_t minus_of_words(const uint8_t* eight) {
  const __m128i bytes = _mm_packs_epi16(lane_at(eight), lane_at(eight));
  const __m128i twin = _mm_unpacklo_epi8(bytes, bytes);
  return minus_of_bytes(_mm_unpacklo_epi16(twin, twin), _mm_unpackhi_epi16(twin, twin));
}
STRATA_INLINE uint32_t minus_of_halves(const uint8_t* sixteen) {
  const __m128i odd = lane_at(sixteen), even = _mm_slli_epi16(odd, 4);
  return minus_of_bytes(_mm_unpacklo_epi8(even, odd), _mm_unpackhi_epi8(even, odd));
}

struct Indices64 {
  alignas(32) uint16_t at[64];
};
struct ByteIndices64 {
  const uint8_t* at;
};
STRATA_INLINE ByteIndices64 indices_of_fours(const uint8_t* low) {
  return {low};
}
STRATA_INLINE Indices64 indices_of_fours(const uint8_t* low, const uint8_t* high_bits) {
  const __m256i own = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, -32768);
  Indices64 index;
  for (int i = 0; i < 4; ++i) {
    uint16_t bits;
    __builtin_memcpy(&bits, high_bits + 2 * i, sizeof bits);
    const __m256i ninth = _mm256_cmpeq_epi16(_mm256_and_si256(_mm256_set1_epi16(static_cast<short>(bits)), own), own);
    const __m256i word =
        _mm256_or_si256(_mm256_cvtepu8_epi16(lane_at(low + 16 * i)), _mm256_and_si256(ninth, _mm256_set1_epi16(256)));
    _mm256_store_si256(reinterpret_cast<__m256i*>(index.at + 16 * i), word);
  }
  keep_in_memory(index);
  return index;
}
STRATA_INLINE __m128i four_entries(const uint32_t* grid, size_t a, size_t b, size_t c, size_t d) {
  return _mm_set_epi32(static_cast<int>(grid[d]), static_cast<int>(grid[c]), static_cast<int>(grid[b]),
                       static_cast<int>(grid[a]));
}
STRATA_INLINE __m128i four_entries(const uint32_t* grid, const uint8_t* index) {
  return four_entries(grid, index[0], index[1], index[2], index[3]);
}
STRATA_INLINE __m128i four_entries(const uint32_t* grid, const uint16_t* index) {
  uint64_t four;
  __builtin_memcpy(&four, index, sizeof four);
  return four_entries(grid, four & 0xffff, four >> 16 & 0xffff, four >> 32 & 0xffff, four >> 48);
}
template <int p, class Index>
STRATA_INLINE Bytes fours(const uint32_t* grid, const Index& index) {
  const auto* at = index.at + 4 * p;
  return {{_mm256_set_m128i(four_entries(grid, at + 16), four_entries(grid, at)),
           _mm256_set_m128i(four_entries(grid, at + 48), four_entries(grid, at + 32))}};
}

// --- codes and dots -------------------------------------------------------------------------------------------------

STRATA_INLINE Codes turn(Bytes a, Bytes b, Bytes c, Bytes d) {
  Codes codes;
  for (int h = 0; h < 2; ++h) {
    const __m256i ab_low = _mm256_unpacklo_epi32(a.v[h], b.v[h]), ab_high = _mm256_unpackhi_epi32(a.v[h], b.v[h]);
    const __m256i cd_low = _mm256_unpacklo_epi32(c.v[h], d.v[h]), cd_high = _mm256_unpackhi_epi32(c.v[h], d.v[h]);
    codes.v[0][h] = _mm256_unpacklo_epi64(ab_low, cd_low);
    codes.v[1][h] = _mm256_unpackhi_epi64(ab_low, cd_low);
    codes.v[2][h] = _mm256_unpacklo_epi64(ab_high, cd_high);
    codes.v[3][h] = _mm256_unpackhi_epi64(ab_high, cd_high);
  }
  return codes;
}
STRATA_INLINE Codes as_codes(Bytes a, Bytes b, Bytes c, Bytes d) {
  return {{{a.v[0], a.v[1]}, {b.v[0], b.v[1]}, {c.v[0], c.v[1]}, {d.v[0], d.v[1]}}};
}
STRATA_INLINE void store_codes(const Codes& c, uint8_t* to, int add) {
  for (int j = 0; j < 4; ++j) {
    for (int h = 0; h < 2; ++h) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(to + 64 * j + 32 * h), _mm256_add_epi8(c.v[j][h], bytes_of(add)));
    }
  }
}

#if defined(__AVXVNNI__)
constexpr int kTileOffset(int) {
  return 128;
}
#else
constexpr int kTileOffset(int offset) {
  return offset <= 16 ? 16 : offset;
}
#endif
constexpr int kTileW = 1, kTileX = 4;
constexpr int kRowsTogether = 4;  // while weights are decoded
constexpr int kParts16 = 2;

struct CodePart {
  __m256i v;
};
STRATA_INLINE CodePart part_of(const Codes& c, int j, int h) {
  return {c.v[j][h]};
}
STRATA_INLINE CodePart load_part_of(const uint8_t* codes, int j, int h) {
  return {_mm256_load_si256(reinterpret_cast<const __m256i*>(codes + 64 * j + 32 * h))};
}
template <int kOffset>
STRATA_INLINE __m256i start_of(const ActBlock& x, int h) {
  const __m256i start = _mm256_load_si256(reinterpret_cast<const __m256i*>(x.start + 8 * h));
  return kOffset == 128 ? start : _mm256_srai_epi32(start, 7 - __builtin_ctz(kOffset));
}
STRATA_INLINE __m256i row_part(const ActBlock& x, int j, int h) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(x.codes + 64 * j + 32 * h));
}
template <int kOffset>
struct DotPart {
  __m256i v;
};

#if defined(__AVXVNNI__)
template <int kOffset>
STRATA_INLINE void dot_start(DotPart<kOffset>& part, const ActBlock& x, int h) {
  if constexpr (kOffset == 0) {
    part.v = _mm256_setzero_si256();
  } else {
    part.v = start_of<kOffset>(x, h);
  }
}
template <int kOffset>
STRATA_INLINE void dot_step(DotPart<kOffset>& part, CodePart codes, const ActBlock& x, int j, int h) {
  part.v = _mm256_dpbusd_avx_epi32(part.v, codes.v, row_part(x, j, h));
}
template <int kOffset>
STRATA_INLINE __m256i dot_end(DotPart<kOffset> part, const ActBlock&, int) {
  return part.v;
}
#else
// Codes below 32: the products of all four steps add up in 16 bits. Below 128: two products do. Above, two products
// would not fit; as numbers with a sign they do, the sign given to the row.
template <int kOffset>
STRATA_INLINE void dot_start(DotPart<kOffset>&, const ActBlock&, int) {}

template <int kOffset>
STRATA_INLINE void dot_step(DotPart<kOffset>& part, CodePart codes, const ActBlock& x, int j, int h) {
  if constexpr (kOffset <= 16) {
    const __m256i pairs = _mm256_maddubs_epi16(codes.v, row_part(x, j, h));
    part.v = j == 0 ? pairs : _mm256_add_epi16(part.v, pairs);
  } else {
    __m256i pairs;
    if constexpr (kOffset == 128) {
      const __m256i value = _mm256_xor_si256(codes.v, bytes_of(128));
      pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(value), _mm256_sign_epi8(row_part(x, j, h), value));
    } else {
      pairs = _mm256_maddubs_epi16(codes.v, row_part(x, j, h));
    }
    const __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    part.v = j == 0 ? sums : _mm256_add_epi32(part.v, sums);
  }
}
template <int kOffset>
STRATA_INLINE __m256i dot_end(DotPart<kOffset> part, const ActBlock& x, int h) {
  if constexpr (kOffset <= 16) part.v = _mm256_madd_epi16(part.v, _mm256_set1_epi16(1));
  if constexpr (kOffset == 0 || kOffset == 128) {
    return part.v;
  } else {
    return _mm256_add_epi32(part.v, start_of<kOffset>(x, h));
  }
}
#endif

template <int kOffset>
STRATA_INLINE Ints dot(const Codes& c, const ActBlock& x) {
  Ints sum;
  for (int h = 0; h < 2; ++h) {
    DotPart<kOffset> part;
    dot_start(part, x, h);
    for (int j = 0; j < 4; ++j) dot_step(part, part_of(c, j, h), x, j, h);
    sum.v[h] = dot_end(part, x, h);
  }
  return sum;
}

// --- numbers --------------------------------------------------------------------------------------------------------

STRATA_INLINE Floats to_floats(Ints a) {
  return {{_mm256_cvtepi32_ps(a.v[0]), _mm256_cvtepi32_ps(a.v[1])}};
}
STRATA_INLINE Floats load_floats(const float* from) {
  return {{_mm256_load_ps(from), _mm256_load_ps(from + 8)}};
}
STRATA_INLINE void store_floats(float* to, Floats a) {
  _mm256_store_ps(to, a.v[0]);
  _mm256_store_ps(to + 8, a.v[1]);
}
STRATA_INLINE Floats splat_float(float x) {
  return {{_mm256_set1_ps(x), _mm256_set1_ps(x)}};
}
STRATA_INLINE Floats operator*(Floats a, Floats b) {
  return {{_mm256_mul_ps(a.v[0], b.v[0]), _mm256_mul_ps(a.v[1], b.v[1])}};
}
STRATA_INLINE Floats operator+(Floats a, Floats b) {
  return {{_mm256_add_ps(a.v[0], b.v[0]), _mm256_add_ps(a.v[1], b.v[1])}};
}
STRATA_INLINE Floats operator-(Floats a, Floats b) {
  return {{_mm256_sub_ps(a.v[0], b.v[0]), _mm256_sub_ps(a.v[1], b.v[1])}};
}
STRATA_INLINE Floats times_plus(Floats a, Floats b, Floats c) {
  return {{_mm256_fmadd_ps(a.v[0], b.v[0], c.v[0]), _mm256_fmadd_ps(a.v[1], b.v[1], c.v[1])}};
}
template <int kOffset>
STRATA_INLINE void add_dot(Floats& sum, DotPart<kOffset> part, const ActBlock& x, const float* scale, int h) {
  const __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(dot_end(part, x, h)), _mm256_load_ps(scale + 8 * h));
  sum.v[h] = _mm256_fmadd_ps(scaled, _mm256_load_ps(x.scale + 8 * h), sum.v[h]);
}
STRATA_INLINE Floats keep_lanes(Floats a, uint32_t lanes) {
  const __m256i all = _mm256_set1_epi32(static_cast<int>(lanes));
  const __m256i low = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128), high = _mm256_slli_epi32(low, 8);
  return {{_mm256_and_ps(a.v[0], _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(all, low), low))),
           _mm256_and_ps(a.v[1], _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(all, high), high)))}};
}
STRATA_INLINE Floats floats_of_vector(__m128i bytes) {
  return {{_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
           _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes)))}};
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
STRATA_INLINE Floats doubled(__m256 eight) {
  return {{_mm256_permutevar8x32_ps(eight, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3)),
           _mm256_permutevar8x32_ps(eight, _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7))}};
}
STRATA_INLINE Floats doubled_halves(uint64_t first_four, uint64_t second_four) {
  return doubled(
      _mm256_cvtph_ps(_mm_set_epi64x(static_cast<long long>(second_four), static_cast<long long>(first_four))));
}
STRATA_INLINE Floats doubled_bytes(uint64_t eight) {
  return doubled(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(static_cast<long long>(eight)))));
}
STRATA_INLINE Floats doubled_e8m0(uint64_t eight) {
  return doubled(eight_e8m0(eight));
}
STRATA_INLINE Floats halved_ue4m3(uint64_t first, uint64_t second) {
  return {{eight_halved_ue4m3(first), eight_halved_ue4m3(second)}};
}
STRATA_INLINE Floats four_times_halves(uint64_t four) {
  const __m128 values = _mm_cvtph_ps(_mm_cvtsi64_si128(static_cast<long long>(four)));
  const __m256 low = _mm256_castps128_ps256(_mm_unpacklo_ps(values, values));
  const __m256 high = _mm256_castps128_ps256(_mm_unpackhi_ps(values, values));
  const __m256i order = _mm256_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2);
  return {{_mm256_permutevar8x32_ps(low, order), _mm256_permutevar8x32_ps(high, order)}};
}
template <int stride>
STRATA_INLINE Floats doubled_top_nibbles(const uint8_t* from) {
  if constexpr (stride == 4) {
    return doubled(_mm256_cvtepi32_ps(_mm256_srli_epi32(two_lanes_at(from), 28)));
  } else {
    static_assert(stride == 8);
    const __m256 packed = _mm256_cvtepi32_ps(_mm256_srli_epi32(upper_dwords(from), 28));
    return {{_mm256_unpacklo_ps(packed, packed), _mm256_unpackhi_ps(packed, packed)}};
  }
}
template <int at>
STRATA_INLINE Floats doubled_threes(const uint8_t* words) {
  return doubled(eight_threes<at>(words));
}
// All fields move at once: those of the upper half, then the upper half of every four, then every second one.
template <int n>
STRATA_INLINE uint64_t fields_to_bytes(uint64_t bits) {
  constexpr uint64_t one = (uint64_t{1} << n) - 1, two = (uint64_t{1} << 2 * n) - 1, four = (uint64_t{1} << 4 * n) - 1;
  bits = (bits | bits << (4 * (8 - n))) & (four | four << 32);
  bits = (bits | bits << (2 * (8 - n))) & two * 0x0001000100010001u;
  return (bits | bits << (8 - n)) & one * kEightTimes;
}
STRATA_INLINE uint64_t threes_of_two_words(uint32_t words) {
  return fields_to_bytes<3>((words & 0xfff) | (words >> 4 & 0xfff000));
}

// --- activations ----------------------------------------------------------------------------------------------------

STRATA_INLINE void quantise_group(const float* x, int g, int8_t* codes, ActBlock* to) {
  const __m256 v[2] = {_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)};
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  const __m256i eight = _mm256_max_epi32(_mm256_and_si256(_mm256_castps_si256(v[0]), magnitude),
                                         _mm256_and_si256(_mm256_castps_si256(v[1]), magnitude));
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_max_epi32(four, _mm_unpackhi_epi64(four, four));
  const int highest = _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 1)));
  float scale, inverse;
  scale_of_group(highest, &scale, &inverse);
  __m256i q[2];
  for (int h = 0; h < 2; ++h) {
    const __m256 scaled = _mm256_mul_ps(v[h], _mm256_set1_ps(inverse));
    const __m256 numbers = _mm256_cmp_ps(scaled, scaled, _CMP_ORD_Q);
    q[h] = _mm256_cvtps_epi32(_mm256_and_ps(scaled, numbers));
  }
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(q[0], q[1]), 0xd8);
  const __m128i low = _mm256_castsi256_si128(words), high = _mm256_extracti128_si256(words, 1);
  _mm_store_si128(reinterpret_cast<__m128i*>(codes + 16 * g), _mm_packs_epi16(low, high));
  const __m128i sums = _mm_madd_epi16(_mm_add_epi16(low, high), _mm_set1_epi16(1));
  const __m128i sums_of_two = _mm_add_epi32(sums, _mm_unpackhi_epi64(sums, sums));
  const int sum = _mm_cvtsi128_si32(_mm_add_epi32(sums_of_two, _mm_shuffle_epi32(sums_of_two, 1)));
  to->scale[g] = scale;
  to->start[g] = -128 * sum;
  to->sum[g] = scale * static_cast<float>(sum);
}
STRATA_INLINE void arrange(const int8_t* natural, bool spread, int8_t* to) {
  Bytes v[4];
  const __m256i order = twice(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  for (int p = 0; p < 4; ++p) {
    const auto* at = reinterpret_cast<const uint8_t*>(natural) + 16 * p;
    v[p] = four_lanes(at, at + 64, at + 128, at + 192);
    if (spread) v[p] = {{_mm256_shuffle_epi8(v[p].v[0], order), _mm256_shuffle_epi8(v[p].v[1], order)}};
  }
  store_codes(turn(v[0], v[1], v[2], v[3]), reinterpret_cast<uint8_t*>(to), 0);
}

STRATA_INLINE void four_sums(Floats a, Floats b, Floats c, Floats d, float* to) {
  const auto four_of = [](Floats v) __attribute__((always_inline)) {
    const __m256 eight = _mm256_add_ps(v.v[0], v.v[1]);
    return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  };
  const __m128 a4 = four_of(a), b4 = four_of(b), c4 = four_of(c), d4 = four_of(d);
  const __m128 ab = _mm_add_ps(_mm_unpacklo_ps(a4, b4), _mm_unpackhi_ps(a4, b4));  // a02, b02, a13, b13
  const __m128 cd = _mm_add_ps(_mm_unpacklo_ps(c4, d4), _mm_unpackhi_ps(c4, d4));
  _mm_storeu_ps(to, _mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab)));
}

}  // namespace
}  // namespace strata
