#include "quant/random_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "quant/formats.h"
#include "quant/half.h"

namespace strata {
namespace {

// The splitmix64 generator.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  float unit() { return static_cast<float>(next() >> 40) * 0x1p-24f; }  // [0, 1)

 private:
  uint64_t state_;
};

// Root mean square of a block's values for d = 1 and otherwise random bits; with offsets, for the offset set below.
constexpr struct {
  DType type;
  float rms;
} kUnitScaleRms[] = {
    {DType::Q4_0, 4.7f},  {DType::Q4_1, 4.7f},  {DType::Q5_0, 9.4f},   {DType::Q5_1, 9.4f},  {DType::Q8_0, 74},
    {DType::Q2_0, 1.24f}, {DType::Q2_K, 14},    {DType::Q3_K, 43},     {DType::Q4_K, 259},   {DType::Q5_K, 530},
    {DType::Q6_K, 1365},  {DType::IQ1_S, 7.3f}, {DType::IQ1_M, 7.3f},  {DType::IQ2_XXS, 53}, {DType::IQ2_XS, 58},
    {DType::IQ2_S, 58},   {DType::IQ3_S, 145},  {DType::IQ3_XXS, 145}, {DType::IQ4_NL, 69},  {DType::IQ4_XS, 1290},
    {DType::MXFP4, 5.9f}, {DType::NVFP4, 2.9f},
};

float rms_of_unit_scale(DType type) {
  for (const auto& entry : kUnitScaleRms) {
    if (entry.type == type) return entry.rms;
  }
  return 1;
}

// Offsets that bring the mean to zero; the other formats get it from scales of either sign.
void set_scale(BlockQ4_1& b, float d, float /*sign*/) {
  b.d = float_to_half(d);
  b.m = float_to_half(-7.5f * d);
}
void set_scale(BlockQ5_1& b, float d, float /*sign*/) {
  b.d = float_to_half(d);
  b.m = float_to_half(-15.5f * d);
}
void set_scale(BlockQ2_K& b, float d, float /*sign*/) {
  b.d = float_to_half(d);
  b.dmin = float_to_half(1.5f * d);
}
void set_scale(BlockQ4_K& b, float d, float /*sign*/) {
  b.d = float_to_half(d);
  b.dmin = float_to_half(7.5f * d);
}
void set_scale(BlockQ5_K& b, float d, float /*sign*/) {
  b.d = float_to_half(d);
  b.dmin = float_to_half(15.5f * d);
}

void set_scale(BlockIQ1_M& b, float d, float /*sign*/) {
  const uint32_t bits = float_to_half(d);
  for (int i = 0; i < 4; ++i)
    b.scales[i] = static_cast<uint16_t>((b.scales[i] & 0x0fffu) | ((bits >> (4 * i)) & 15u) << 12);
}

// The power of two nearest to d on a logarithmic scale.
void set_scale(BlockMXFP4& b, float d, float /*sign*/) {
  int exponent;
  std::frexp(d * 1.41421356f, &exponent);  // d * sqrt(2) is in [2^(exponent - 1), 2^exponent)
  b.e = static_cast<uint8_t>(std::clamp(exponent - 1 + 128, 1, 250));
}

// Four different scales around d.
void set_scale(BlockNVFP4& b, float d, float /*sign*/) {
  int nearest = 1;
  while (nearest < 120 && ue4m3_to_float(static_cast<uint8_t>(nearest)) < d) ++nearest;
  for (uint8_t& scale : b.scales) scale = static_cast<uint8_t>(std::clamp(nearest + scale % 5 - 2, 1, 126));
}

template <class Block>
void set_scale(Block& b, float d, float sign) {
  b.d = float_to_half(sign * d);
}

// What one call fills: blocks first, first + 1, ... of the sequence that a seed stands for.
struct Piece {
  uint64_t mixed_seed;
  int64_t first, n_blocks;
  std::byte* out;
  float rms;

  Random random(int64_t i) const { return Random(mixed_seed ^ static_cast<uint64_t>(first + i) * 0xd1342543de82ef95u); }
};

template <class Block>
void fill(const Piece& piece) {
  const float unit = piece.rms / rms_of_unit_scale(Block::kType);
  for (int64_t i = 0; i < piece.n_blocks; ++i) {
    Random random = piece.random(i);
    uint64_t words[(sizeof(Block) + 7) / 8];
    for (uint64_t& word : words) word = random.next();
    Block block;
    std::memcpy(&block, words, sizeof(Block));
    const float d = unit * (0.75f + 0.5f * random.unit());
    set_scale(block, d, random.next() & 1 ? 1.0f : -1.0f);
    std::memcpy(piece.out + i * static_cast<int64_t>(sizeof(Block)), &block, sizeof(Block));
  }
}

// Uniform values with the wanted root mean square, stored by `store`.
template <class Stored, class Store>
void fill_values(const Piece& piece, Store store) {
  for (int64_t i = 0; i < piece.n_blocks; ++i) {
    Random random = piece.random(i);
    const Stored value = store((2 * random.unit() - 1) * 1.7320508f * piece.rms);
    std::memcpy(piece.out + i * static_cast<int64_t>(sizeof(Stored)), &value, sizeof value);
  }
}

}  // namespace

void random_blocks(DType type, uint64_t seed, int64_t n_blocks, std::byte* out, float rms, int64_t first) {
  CHECK(n_blocks >= 0 && first >= 0 && rms >= 0.001f && rms <= 100, "{} blocks, rms {}", n_blocks, rms);
  const Piece piece{Random(seed).next(), first, n_blocks, out, rms};
  switch (type) {
    case DType::F32:
      return fill_values<float>(piece, [](float v) { return v; });
    case DType::F16:
      return fill_values<uint16_t>(piece, float_to_half);
    case DType::BF16:
      return fill_values<uint16_t>(piece, float_to_bf16);
    case DType::Q4_0:
      return fill<BlockQ4_0>(piece);
    case DType::Q4_1:
      return fill<BlockQ4_1>(piece);
    case DType::Q5_0:
      return fill<BlockQ5_0>(piece);
    case DType::Q5_1:
      return fill<BlockQ5_1>(piece);
    case DType::Q8_0:
      return fill<BlockQ8_0>(piece);
    case DType::Q2_0:
      return fill<BlockQ2_0>(piece);
    case DType::Q2_K:
      return fill<BlockQ2_K>(piece);
    case DType::Q3_K:
      return fill<BlockQ3_K>(piece);
    case DType::Q4_K:
      return fill<BlockQ4_K>(piece);
    case DType::Q5_K:
      return fill<BlockQ5_K>(piece);
    case DType::Q6_K:
      return fill<BlockQ6_K>(piece);
    case DType::IQ1_S:
      return fill<BlockIQ1_S>(piece);
    case DType::IQ1_M:
      return fill<BlockIQ1_M>(piece);
    case DType::IQ2_XXS:
      return fill<BlockIQ2_XXS>(piece);
    case DType::IQ2_XS:
      return fill<BlockIQ2_XS>(piece);
    case DType::IQ2_S:
      return fill<BlockIQ2_S>(piece);
    case DType::IQ3_XXS:
      return fill<BlockIQ3_XXS>(piece);
    case DType::IQ3_S:
      return fill<BlockIQ3_S>(piece);
    case DType::IQ4_NL:
      return fill<BlockIQ4_NL>(piece);
    case DType::IQ4_XS:
      return fill<BlockIQ4_XS>(piece);
    case DType::MXFP4:
      return fill<BlockMXFP4>(piece);
    case DType::NVFP4:
      return fill<BlockNVFP4>(piece);
  }
  CHECK(false, "type id {}", static_cast<uint32_t>(type));
}

}  // namespace strata
