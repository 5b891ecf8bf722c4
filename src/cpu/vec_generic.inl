// The tiny vector type of the integer dots for any processor, in plain loops. This is also where the names of every
// vec_*.inl are explained: the others do the same with registers. 64 bytes are four lanes of 16; 16 sums or floats
// belong to the 16 groups of a block. What is multiplied and added here is rounded in between, there it is not. Part of
// dots.inl.

namespace strata {
namespace {

struct Bytes {
  alignas(16) uint8_t at[64];
};
struct Ints {
  alignas(16) int32_t at[16];
};
struct Floats {
  alignas(16) float at[16];
};
// Vector j holds four bytes of group l in bytes 4l to 4l + 3: those of row codes of the same number (ActOrder).
struct Codes {
  alignas(16) uint8_t at[4][64];
};

template <class V, class F>
STRATA_INLINE V each(F f) {
  V v;
  constexpr int n = sizeof v.at / sizeof v.at[0];
  for (int i = 0; i < n; ++i) v.at[i] = f(i);
  return v;
}
#define STRATA_EACH [&](int i) __attribute__((always_inline))

STRATA_INLINE uint16_t word16_at(const uint8_t* from) {
  return static_cast<uint16_t>(from[0] | from[1] << 8);
}
STRATA_INLINE uint32_t word32_at(const uint8_t* from) {
  return word16_at(from) | static_cast<uint32_t>(word16_at(from + 2)) << 16;
}

// --- bytes ----------------------------------------------------------------------------------------------------------

STRATA_INLINE Bytes splat_byte(int x) {
  Bytes v;
  __builtin_memset(v.at, x, sizeof v.at);
  return v;
}
STRATA_INLINE Bytes operator&(const Bytes& a, const Bytes& b) {
  return each<Bytes>(STRATA_EACH { return static_cast<uint8_t>(a.at[i] & b.at[i]); });
}
STRATA_INLINE Bytes operator|(const Bytes& a, const Bytes& b) {
  return each<Bytes>(STRATA_EACH { return static_cast<uint8_t>(a.at[i] | b.at[i]); });
}
STRATA_INLINE Bytes operator^(const Bytes& a, const Bytes& b) {
  return each<Bytes>(STRATA_EACH { return static_cast<uint8_t>(a.at[i] ^ b.at[i]); });
}
// Elsewhere bits of neighbouring bytes come in from above (below): a caller masks them off.
template <int n>
STRATA_INLINE Bytes shift_right(const Bytes& a) {
  return each<Bytes>(STRATA_EACH { return static_cast<uint8_t>(a.at[i] >> n); });
}
template <int n>
STRATA_INLINE Bytes shift_left(const Bytes& a) {
  return each<Bytes>(STRATA_EACH { return static_cast<uint8_t>(a.at[i] << n); });
}
STRATA_INLINE Bytes four_lanes(const uint8_t* a, const uint8_t* b, const uint8_t* c, const uint8_t* d) {
  Bytes v;
  __builtin_memcpy(v.at, a, 16);
  __builtin_memcpy(v.at + 16, b, 16);
  __builtin_memcpy(v.at + 32, c, 16);
  __builtin_memcpy(v.at + 48, d, 16);
  return v;
}
STRATA_INLINE Bytes same_lanes(const uint8_t* a) {
  return four_lanes(a, a, a, a);
}
// Lanes a, a, b, b.
STRATA_INLINE Bytes twin_lanes(const uint8_t* a, const uint8_t* b) {
  return four_lanes(a, a, b, b);
}
// Lanes that lie `stride` bytes apart.
STRATA_INLINE Bytes load_dwords(const uint8_t* from, int stride) {
  return four_lanes(from, from + stride, from + 2 * stride, from + 3 * stride);
}
// Lane i shifted right by its own number of bits, with the warning of shift_right.
template <int a, int b, int c, int d>
STRATA_INLINE Bytes shift_lanes(const Bytes& v) {
  Bytes result;
  for (int i = 0; i < 16; ++i) {
    result.at[i] = static_cast<uint8_t>(v.at[i] >> a);
    result.at[i + 16] = static_cast<uint8_t>(v.at[i + 16] >> b);
    result.at[i + 32] = static_cast<uint8_t>(v.at[i + 32] >> c);
    result.at[i + 48] = static_cast<uint8_t>(v.at[i + 48] >> d);
  }
  return result;
}
// Within a lane: the first (second) eight bytes twice, the second time shifted right by 4 bits.
template <int first>
STRATA_INLINE Bytes halves_of(const Bytes& v) {
  Bytes result;
  for (int lane = 0; lane < 64; lane += 16) {
    for (int i = 0; i < 8; ++i) {
      result.at[lane + i] = v.at[lane + first + i];
      result.at[lane + 8 + i] = static_cast<uint8_t>(v.at[lane + first + i] >> 4);
    }
  }
  return result;
}
STRATA_INLINE Bytes halves_of_first(const Bytes& v) {
  return halves_of<0>(v);
}
STRATA_INLINE Bytes halves_of_second(const Bytes& v) {
  return halves_of<8>(v);
}
STRATA_INLINE Bytes table_of_16(const int8_t* table, int add) {
  return each<Bytes>(STRATA_EACH { return static_cast<uint8_t>(table[i % 16] + add); });
}
STRATA_INLINE Bytes look_up(const Bytes& table, const Bytes& index) {
  return each<Bytes>(STRATA_EACH { return table.at[index.at[i]]; });
}
constexpr uint64_t kEightTimes = 0x0101010101010101u;
// Eight bits to bytes of 0 and 1.
STRATA_INLINE uint64_t bytes_of_bits(uint32_t eight) {
  const uint64_t own = eight * kEightTimes & 0x8040201008040201u;
  return (own + 0x7f7f7f7f7f7f7f7fu) >> 7 & kEightTimes;
}
STRATA_INLINE void store_eight(uint8_t* to, uint64_t bytes) {
  __builtin_memcpy(to, &bytes, sizeof bytes);
}
STRATA_INLINE uint64_t load_eight(const uint8_t* from) {
  uint64_t bytes;
  __builtin_memcpy(&bytes, from, sizeof bytes);
  return bytes;
}
// A byte is `value` where its bit is set, else 0; each lane has 16 bits.
STRATA_INLINE Bytes where_bits(uint16_t a, uint16_t b, uint16_t c, uint16_t d, int value) {
  const uint16_t words[4] = {a, b, c, d};
  Bytes v;
  for (int i = 0; i < 8; ++i) {
    store_eight(v.at + 8 * i, bytes_of_bits(words[i / 2] >> (i % 2 * 8) & 255) * static_cast<uint32_t>(value));
  }
  return v;
}

// --- signs and code books -------------------------------------------------------------------------------------------

// 32 sign bytes in the order of the elements, a bit for each; from bytes, or from sign codes: seven bits each, bit 7
// makes the number of ones even.
struct Signs {
  uint8_t at[32];
};
STRATA_INLINE Signs load_signs(const uint8_t* bytes) {
  return each<Signs>(STRATA_EACH { return bytes[i]; });
}
STRATA_INLINE uint8_t with_even_ones(uint32_t code) {
  const uint32_t four = code ^ code >> 4, two = four ^ four >> 2;
  return static_cast<uint8_t>(code | ((two ^ two >> 1) & 1) << 7);
}
// The codes are the upper bits of 32 words.
STRATA_INLINE Signs even_signs_of_words(const uint8_t* words) {
  return each<Signs>(STRATA_EACH { return with_even_ones(words[2 * i + 1] >> 1); });
}
// Four codes in each of eight dwords, which lie behind each other or are the upper halves of eight bytes.
template <int stride>
STRATA_INLINE Signs even_signs_of_dwords(const uint8_t* from) {
  static_assert(stride == 4 || stride == 8);
  Signs signs;
  for (int g = 0; g < 8; ++g) {
    const uint32_t codes = word32_at(from + stride * g + stride - 4);
    for (int k = 0; k < 4; ++k) signs.at[4 * g + k] = with_even_ones(codes >> (7 * k) & 127);
  }
  return signs;
}
// Codes kOffset + v become kOffset - v where the sign bit is set. Vector p has group 4q + p in lane q, here and below.
template <int kOffset, int p>
STRATA_INLINE Bytes negate(const Bytes& codes, const Signs& signs) {
  Bytes result;
  for (int i = 0; i < 8; ++i) {
    const uint64_t minus = bytes_of_bits(signs.at[i / 2 * 8 + 2 * p + i % 2]) * 255;
    const uint64_t positive = load_eight(codes.at + 8 * i), negative = 2 * kOffset * kEightTimes - positive;
    store_eight(result.at + 8 * i, positive ^ ((positive ^ negative) & minus));
  }
  return result;
}

// Indices of eights in the order of the elements: two for a group.
struct Indices32 {
  uint16_t at[32];
};
template <int p>
STRATA_INLINE Bytes eights(const uint64_t* grid, const Indices32& index) {
  Bytes result;
  for (int i = 0; i < 8; ++i) __builtin_memcpy(result.at + 8 * i, grid + index.at[i / 2 * 8 + 2 * p + i % 2], 8);
  return result;
}
STRATA_INLINE Indices32 low_9_bits(const uint8_t* words) {
  return each<Indices32>(STRATA_EACH { return static_cast<uint16_t>(word16_at(words + 2 * i) & 511); });
}
STRATA_INLINE Indices32 byte_indices(const uint8_t* from) {
  return each<Indices32>(STRATA_EACH { return from[i]; });
}
// The first four of every eight bytes.
STRATA_INLINE Indices32 byte_indices_of_eights(const uint8_t* from) {
  return each<Indices32>(STRATA_EACH { return from[i / 4 * 8 + i % 4]; });
}
// Index 4g + k gets bits [step * k, step * k + bits) of the g-th item as its bits 8 and up.
template <int step, int bits>
STRATA_INLINE Indices32 with_high_bits_of_bytes(const Indices32& low, const uint8_t* eight) {
  constexpr int mask = (1 << bits) - 1;
  return each<Indices32>(
      STRATA_EACH { return static_cast<uint16_t>(low.at[i] | (eight[i / 4] >> (i % 4 * step) & mask) << 8); });
}
template <int step, int bits>
STRATA_INLINE Indices32 with_high_bits_of_words(const Indices32& low, const uint8_t* eight) {
  constexpr int mask = (1 << bits) - 1;
  return each<Indices32>(STRATA_EACH {
    return static_cast<uint16_t>(low.at[i] | (word16_at(eight + i / 4 * 2) >> (i % 4 * step) & mask) << 8);
  });
}
// Each byte of the eights whose bit is set becomes less by 2; bit i is that of the i-th eight.
template <int p>
STRATA_INLINE Bytes lower_eights(const Bytes& v, uint32_t minus) {
  Bytes result;
  for (int i = 0; i < 8; ++i) {
    const uint64_t bit = minus >> (i / 2 * 8 + 2 * p + i % 2) & 1;
    store_eight(result.at + 8 * i, load_eight(v.at + 8 * i) - 2 * kEightTimes * bit);
  }
  return result;
}
// The top bit of each of eight words, for four eights; those of half bytes.
STRATA_INLINE uint32_t minus_of_words(const uint8_t* eight) {
  uint32_t minus = 0;
  for (int g = 0; g < 8; ++g) minus |= static_cast<uint32_t>(eight[2 * g + 1] >> 7) * 15 << (4 * g);
  return minus;
}
STRATA_INLINE uint32_t minus_of_halves(const uint8_t* sixteen) {
  uint32_t minus = 0;
  for (int i = 0; i < 32; ++i) minus |= static_cast<uint32_t>(sixteen[i / 2] >> (i % 2 * 4 + 3) & 1) << i;
  return minus;
}
// Indices of fours: 64 bytes, and bit 8 from 64 bits.
struct Indices64 {
  uint16_t at[64];
};
STRATA_INLINE Indices64 indices_of_fours(const uint8_t* low) {
  return each<Indices64>(STRATA_EACH { return low[i]; });
}
STRATA_INLINE Indices64 indices_of_fours(const uint8_t* low, const uint8_t* high_bits) {
  return each<Indices64>(
      STRATA_EACH { return static_cast<uint16_t>(low[i] | (high_bits[i / 8] >> (i % 8) & 1) << 8); });
}
template <int p>
STRATA_INLINE Bytes fours(const uint32_t* grid, const Indices64& index) {
  Bytes result;
  for (int i = 0; i < 16; ++i) __builtin_memcpy(result.at + 4 * i, grid + index.at[i / 4 * 16 + 4 * p + i % 4], 4);
  return result;
}

// --- codes ----------------------------------------------------------------------------------------------------------

// Each lane is four dwords: with group 4q + p in lane q of the p-th argument, vector j gets dword j of group l as its
// l-th.
STRATA_INLINE Codes turn(const Bytes& a, const Bytes& b, const Bytes& c, const Bytes& d) {
  const Bytes* const from[4] = {&a, &b, &c, &d};
  Codes codes;
  for (int j = 0; j < 4; ++j) {
    for (int l = 0; l < 16; ++l) __builtin_memcpy(codes.at[j] + 4 * l, from[l % 4]->at + l / 4 * 16 + 4 * j, 4);
  }
  return codes;
}
STRATA_INLINE Codes as_codes(const Bytes& a, const Bytes& b, const Bytes& c, const Bytes& d) {
  const Bytes* const from[4] = {&a, &b, &c, &d};
  Codes codes;
  for (int j = 0; j < 4; ++j) __builtin_memcpy(codes.at[j], from[j]->at, 64);
  return codes;
}
STRATA_INLINE void store_codes(const Codes& c, uint8_t* to, int add) {
  for (int j = 0; j < 4; ++j) {
    for (int i = 0; i < 64; ++i) to[64 * j + i] = static_cast<uint8_t>(c.at[j][i] + add);
  }
}

// Of codes in a decoded tile, for a format that has them with `offset`; and how many weights and rows of it are
// multiplied at once.
constexpr int kTileOffset(int) {
  return 128;
}
constexpr int kTileW = 1, kTileX = 2;
constexpr int kRowsTogether = 1;  // while weights are decoded
// In how many parts 16 lanes are multiplied, since that many registers hold them.
constexpr int kParts16 = 1;

// Part h of vector j.
struct CodePart {
  const uint8_t* at;
};
STRATA_INLINE CodePart part_of(const Codes& c, int j, int) {
  return {c.at[j]};
}
STRATA_INLINE CodePart load_part_of(const uint8_t* codes, int j, int) {
  return {codes + 64 * j};
}
// Codes, which have an offset, times a block of a row: dot_start, then dot_step for j = 0 to 3, then add_dot. Where
// kOffset is up to 16, codes are below 32; else below 2 * kOffset.
typedef int16_t Words __attribute__((vector_size(16)));
typedef int32_t Dwords __attribute__((vector_size(16)));
template <int kOffset>
struct DotPart {
  Dwords v[4];
};
template <int kOffset>
STRATA_INLINE void dot_start(DotPart<kOffset>& part, const ActBlock& x, int) {
  __builtin_memcpy(part.v, x.start, sizeof part.v);
  // Codes of offset 128 are read as numbers with a sign.
  for (Dwords& v : part.v) v = (v >> 7) * (kOffset == 128 ? 0 : kOffset);
}
// Two products fit in 16 bits: codes are below 128, or numbers with a sign.
template <int kOffset>
STRATA_INLINE void dot_step(DotPart<kOffset>& part, CodePart codes, const ActBlock& x, int j, int) {
  for (int i = 0; i < 4; ++i) {
    Words c, row;
    __builtin_memcpy(&c, codes.at + 16 * i, sizeof c);
    __builtin_memcpy(&row, x.codes + 64 * j + 16 * i, sizeof row);
    if constexpr (kOffset == 128) c ^= static_cast<int16_t>(-0x7f80);
    const Words pairs = (c << 8 >> 8) * (row << 8 >> 8) + (c >> 8) * (row >> 8);
    const Dwords two = (Dwords)pairs;
    part.v[i] += (two << 16 >> 16) + (two >> 16);
  }
}
template <int kOffset>
STRATA_INLINE Ints dot(const Codes& c, const ActBlock& x) {
  DotPart<kOffset> part;
  dot_start(part, x, 0);
  for (int j = 0; j < 4; ++j) dot_step(part, part_of(c, j, 0), x, j, 0);
  Ints sum;
  __builtin_memcpy(sum.at, part.v, sizeof sum.at);
  return sum;
}
// sum += dot * scale * scale of the row
template <int kOffset>
STRATA_INLINE void add_dot(Floats& sum, const DotPart<kOffset>& part, const ActBlock& x, const float* scale, int) {
  int32_t of_lane[16];
  __builtin_memcpy(of_lane, part.v, sizeof of_lane);
  for (int l = 0; l < 16; ++l) sum.at[l] += static_cast<float>(of_lane[l]) * scale[l] * x.scale[l];
}

// --- numbers --------------------------------------------------------------------------------------------------------

STRATA_INLINE Floats to_floats(const Ints& a) {
  return each<Floats>(STRATA_EACH { return static_cast<float>(a.at[i]); });
}
STRATA_INLINE Floats load_floats(const float* from) {
  return each<Floats>(STRATA_EACH { return from[i]; });
}
STRATA_INLINE void store_floats(float* to, const Floats& a) {
  for (int i = 0; i < 16; ++i) to[i] = a.at[i];
}
STRATA_INLINE Floats splat_float(float x) {
  Floats v;
  for (float& lane : v.at) lane = x;
  return v;
}
STRATA_INLINE Floats operator*(const Floats& a, const Floats& b) {
  return each<Floats>(STRATA_EACH { return a.at[i] * b.at[i]; });
}
STRATA_INLINE Floats operator+(const Floats& a, const Floats& b) {
  return each<Floats>(STRATA_EACH { return a.at[i] + b.at[i]; });
}
STRATA_INLINE Floats operator-(const Floats& a, const Floats& b) {
  return each<Floats>(STRATA_EACH { return a.at[i] - b.at[i]; });
}
STRATA_INLINE Floats times_plus(const Floats& a, const Floats& b, const Floats& c) {  // a * b + c
  return each<Floats>(STRATA_EACH { return a.at[i] * b.at[i] + c.at[i]; });
}
// Zero in the lanes whose bit is not set.
STRATA_INLINE Floats keep_lanes(const Floats& a, uint32_t lanes) {
  return each<Floats>(STRATA_EACH { return (lanes >> i & 1) != 0 ? a.at[i] : 0.0f; });
}
// Sixteen signed bytes.
STRATA_INLINE Floats floats_of_bytes(uint64_t first, uint64_t second) {
  return each<Floats>(
      STRATA_EACH { return static_cast<float>(static_cast<int8_t>((i < 8 ? first : second) >> (i % 8 * 8))); });
}
STRATA_INLINE Floats floats_of_low_halves(const uint8_t* from) {
  return each<Floats>(STRATA_EACH { return static_cast<float>(from[i] & 15); });
}
STRATA_INLINE Floats floats_of_high_halves(const uint8_t* from) {
  return each<Floats>(STRATA_EACH { return static_cast<float>(from[i] >> 4); });
}
// The same value as the conversion that processors have.
STRATA_INLINE float half_of(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
  uint32_t value = (magnitude << 13) + (magnitude >= 0x7c00 ? 224u << 23 : 112u << 23);
  if (magnitude < 0x400) {
    const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
    __builtin_memcpy(&value, &subnormal, sizeof value);
  }
  value |= sign;
  float result;
  __builtin_memcpy(&result, &value, sizeof result);
  return result;
}
STRATA_INLINE float half_at(const uint8_t* from) {
  return half_of(word16_at(from));
}
// Eight values, of 32 elements each, to their two groups.
STRATA_INLINE Floats doubled_floats(const float* eight) {
  return each<Floats>(STRATA_EACH { return eight[i / 2]; });
}
STRATA_INLINE Floats doubled_halves(uint64_t first_four, uint64_t second_four) {
  float eight[8];
  for (int i = 0; i < 8; ++i)
    eight[i] = half_of(static_cast<uint16_t>((i < 4 ? first_four : second_four) >> (i % 4 * 16)));
  return doubled_floats(eight);
}
STRATA_INLINE Floats doubled_bytes(uint64_t eight) {
  return each<Floats>(STRATA_EACH { return static_cast<float>(static_cast<int8_t>(eight >> (i / 2 * 8))); });
}
// Four values, of 64 elements each.
STRATA_INLINE Floats four_times_halves(uint64_t four) {
  return each<Floats>(STRATA_EACH { return half_of(static_cast<uint16_t>(four >> (i / 4 * 16))); });
}
// Eight scale bytes of MXFP4 to their two groups; sixteen of NVFP4, halved, since its code book is doubled.
STRATA_INLINE Floats doubled_e8m0(uint64_t eight) {
  return each<Floats>(STRATA_EACH {
    const auto e = static_cast<uint32_t>(eight >> (i / 2 * 8) & 255);
    const uint32_t bits = e < 2 ? 0x00200000u << e : (e - 1) << 23;
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
  });
}
STRATA_INLINE Floats halved_ue4m3(uint64_t first, uint64_t second) {
  return each<Floats>(STRATA_EACH {
    const auto byte = static_cast<uint32_t>((i < 8 ? first : second) >> (i % 8 * 8) & 255);
    const uint32_t v = byte & 127;
    const uint32_t bits = (v + (119u << 3)) << 20;
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return byte == 127 ? 0.0f : v < 8 ? static_cast<float>(v) * 0x1p-10f : value;
  });
}
// The top 4 bits of eight dwords, which lie as for even_signs_of_dwords.
template <int stride>
STRATA_INLINE Floats doubled_top_nibbles(const uint8_t* from) {
  return each<Floats>(STRATA_EACH { return static_cast<float>(from[i / 2 * stride + stride - 1] >> 4); });
}
// Three bits of each of eight words, from bit `at` on.
template <int at>
STRATA_INLINE Floats doubled_threes(const uint8_t* words) {
  return each<Floats>(STRATA_EACH { return static_cast<float>(word16_at(words + i / 2 * 2) >> at & 7); });
}
// Eight fields of n bits to bytes.
template <int n>
STRATA_INLINE uint64_t fields_to_bytes(uint64_t bits) {
  uint64_t bytes = 0;
  for (int i = 0; i < 8; ++i) bytes |= (bits >> (n * i) & ((1 << n) - 1)) << (8 * i);
  return bytes;
}
// Four fields of 3 bits in each of two words to bytes.
STRATA_INLINE uint64_t threes_of_two_words(uint32_t words) {
  return fields_to_bytes<3>((words & 0xfff) | (words >> 4 & 0xfff000));
}

// --- activations ----------------------------------------------------------------------------------------------------

// Group g of a block: codes in natural order, and what belongs to them.
STRATA_INLINE void quantise_group(const float* x, int g, int8_t* codes, ActBlock* to) {
  int32_t highest = 0;
  for (int i = 0; i < 16; ++i) {
    int32_t bits;
    __builtin_memcpy(&bits, x + i, sizeof bits);
    bits &= 0x7fffffff;
    highest = bits > highest ? bits : highest;
  }
  float scale, inverse;
  scale_of_group(highest, &scale, &inverse);
  int sum = 0;
  for (int i = 0; i < 16; ++i) {
    const float scaled = x[i] * inverse;
    const float number = scaled == scaled ? scaled : 0.0f;
    const int code =
        static_cast<int>((number + 12582912.0f) - 12582912.0f);  // adding 1.5 * 2^23 rounds to a whole number
    codes[16 * g + i] = static_cast<int8_t>(code);
    sum += code;
  }
  to->scale[g] = scale;
  to->start[g] = -128 * sum;
  to->sum[g] = scale * static_cast<float>(sum);
}
// From the natural order to that of ActOrder.
STRATA_INLINE void arrange(const int8_t* natural, bool spread, int8_t* to) {
  for (int j = 0; j < 4; ++j) {
    for (int i = 0; i < 64; ++i) {
      const int of_group = spread ? i % 4 * 4 + j : j * 4 + i % 4;
      to[64 * j + i] = natural[i / 4 * 16 + of_group];
    }
  }
}

// The sums of four times 16 lanes: lane i plus i + 8, then i + 4, i + 2, i + 1.
STRATA_INLINE void four_sums(const Floats& a, const Floats& b, const Floats& c, const Floats& d, float* to) {
  const Floats* const from[4] = {&a, &b, &c, &d};
  for (int k = 0; k < 4; ++k) {
    Floats v = *from[k];
    for (int n = 8; n > 0; n /= 2) {
      for (int i = 0; i < n; ++i) v.at[i] += v.at[i + n];
    }
    to[k] = v.at[0];
  }
}

#undef STRATA_EACH

}  // namespace
}  // namespace strata
