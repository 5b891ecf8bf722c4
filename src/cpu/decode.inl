// Rows of the formats that the bundled model uses most, to float32: the values of quant/reference.h bit for bit,
// sixteen at a time. Part of kernels.inl, whose rules hold here too.

namespace strata {
namespace {

typedef int8_t Bytes16 __attribute__((vector_size(16)));
typedef uint8_t UBytes16 __attribute__((vector_size(16)));
typedef uint64_t Words2 __attribute__((vector_size(16)));
typedef int8_t ByteVec __attribute__((vector_size(kLanes)));
typedef int16_t ShortVec __attribute__((vector_size(2 * kLanes)));

// Pointers, because the operators of std::array are inline functions.
constexpr const uint32_t* kIq3xxs = kIq3xxsGrid.data();
constexpr const uint64_t* kMasks = kByteMasks.data();
constexpr const uint8_t* kSigns = kEvenSigns.data();
constexpr const int8_t* kIq4nl = kIq4nlValues.data();

// As half_to_float of quant/half.h.
STRATA_INLINE float half_at(const uint8_t* from) {
  uint16_t bits;
  __builtin_memcpy(&bits, from, sizeof bits);
  const uint32_t magnitude = bits & 0x7fffu, low = 0x3f000000u | (magnitude & 0x3ffu);
  float subnormal;
  __builtin_memcpy(&subnormal, &low, sizeof low);
  subnormal -= 0.5f;
  uint32_t value;
  __builtin_memcpy(&value, &subnormal, sizeof value);
  if (magnitude >= 0x400u) value = (magnitude << 13) + ((magnitude >= 0x7c00u ? 224u : 112u) << 23);
  value |= static_cast<uint32_t>(bits & 0x8000u) << 16;
  float result;
  __builtin_memcpy(&result, &value, sizeof value);
  return result;
}

STRATA_INLINE UBytes16 load_bytes(const uint8_t* from) {
  UBytes16 v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

// y[j] = scale * code j
STRATA_INLINE void scale_16(Bytes16 codes, float scale, float* y) {
  int8_t bytes[16];
  __builtin_memcpy(bytes, &codes, sizeof codes);
  for (int i = 0; i < 16; i += kLanes) {
    ByteVec part;
    __builtin_memcpy(&part, bytes + i, sizeof part);
    const ShortVec wider = __builtin_convertvector(part, ShortVec);  // in two steps: compilers take one step apart
    store(y + i, scale * __builtin_convertvector(__builtin_convertvector(wider, IntVec), Vec));
  }
}

// Elements 16 * part .. 16 * part + 15 of a 32-group of a half.
template <int group>
STRATA_INLINE void q6_sixteen(const uint8_t* b, float d, int half, int part, float* y) {
  using Block = BlockQ6_K;
  const UBytes16 low = load_bytes(b + offsetof(Block, ql) + 64 * half + 32 * (group % 2) + 16 * part);
  const UBytes16 high = load_bytes(b + offsetof(Block, qh) + 32 * half + 16 * part);
  const UBytes16 nibbles = group < 2 ? low & 15 : low >> 4;
  const UBytes16 codes = nibbles | (((high >> (2 * group)) & 3) << 4);
  const auto scale = static_cast<int8_t>(b[offsetof(Block, scales) + 8 * half + 2 * group + part]);
  scale_16((Bytes16)codes - 32, d * static_cast<float>(scale), y + 128 * half + 32 * group + 16 * part);
}

// Blocks are read where they lie: a copy would be stored in other pieces than it is loaded.
void decode_q6_k(const std::byte* blocks, int64_t n, float* y) {
  const auto* b = reinterpret_cast<const uint8_t*>(blocks);
  for (int64_t i = 0; i < n; i += BlockQ6_K::kElems, b += sizeof(BlockQ6_K), y += BlockQ6_K::kElems) {
    const float d = half_at(b + offsetof(BlockQ6_K, d));
    for (int quarter = 0; quarter < 4; ++quarter) {
      q6_sixteen<0>(b, d, quarter / 2, quarter % 2, y);
      q6_sixteen<1>(b, d, quarter / 2, quarter % 2, y);
      q6_sixteen<2>(b, d, quarter / 2, quarter % 2, y);
      q6_sixteen<3>(b, d, quarter / 2, quarter % 2, y);
    }
  }
}

// Magnitudes 8k .. 8k + 7 of a 32-group with their signs.
STRATA_INLINE uint64_t iq3_eight(const uint8_t* indices, uint32_t signs_scale, int k) {
  const uint64_t magnitudes = kIq3xxs[indices[2 * k]] | static_cast<uint64_t>(kIq3xxs[indices[2 * k + 1]]) << 32;
  const uint64_t negative = kMasks[kSigns[(signs_scale >> (7 * k)) & 127]];
  return (magnitudes ^ negative) + (negative & 0x0101010101010101u);
}

void decode_iq3_xxs(const std::byte* blocks, int64_t n, float* y) {
  using Block = BlockIQ3_XXS;
  const auto* b = reinterpret_cast<const uint8_t*>(blocks);
  for (int64_t i = 0; i < n; i += Block::kElems, b += sizeof(Block)) {
    const float d = half_at(b + offsetof(Block, d));
    for (int g = 0; g < 8; ++g, y += 32) {
      const uint8_t* indices = b + offsetof(Block, qs) + 8 * g;
      uint32_t signs_scale;
      __builtin_memcpy(&signs_scale, b + offsetof(Block, signs_scales) + 4 * g, sizeof signs_scale);
      const float scale = d * (0.5f + static_cast<float>(signs_scale >> 28)) * 0.5f;
      const Words2 first = {iq3_eight(indices, signs_scale, 0), iq3_eight(indices, signs_scale, 1)};
      const Words2 second = {iq3_eight(indices, signs_scale, 2), iq3_eight(indices, signs_scale, 3)};
      scale_16((Bytes16)first, scale, y);
      scale_16((Bytes16)second, scale, y + 16);
    }
  }
}

// table[code j] for codes below 16
STRATA_INLINE Bytes16 look_up(const int8_t* table, UBytes16 codes) {
  Bytes16 values;
#if defined(__clang__)
  for (int j = 0; j < 16; ++j) values[j] = table[codes[j]];
#else
  __builtin_memcpy(&values, table, sizeof values);
  values = __builtin_shuffle(values, (Bytes16)codes);
#endif
  return values;
}

void decode_iq4_nl(const std::byte* blocks, int64_t n, float* y) {
  using Block = BlockIQ4_NL;
  const auto* b = reinterpret_cast<const uint8_t*>(blocks);
  for (int64_t i = 0; i < n; i += Block::kElems, b += sizeof(Block), y += Block::kElems) {
    const float d = half_at(b + offsetof(Block, d));
    const UBytes16 codes = load_bytes(b + offsetof(Block, qs));
    scale_16(look_up(kIq4nl, codes & 15), d, y);
    scale_16(look_up(kIq4nl, codes >> 4), d, y + 16);
  }
}

}  // namespace
}  // namespace strata
