#include "quant/reference.h"

#include "quant/formats.h"
#include "quant/half.h"
#include "quant/random_blocks.h"
#include "quant/vectors.h"

namespace strata {
namespace {

bool same_bits(const float* a, const float* b, int64_t n) {
  return std::memcmp(a, b, static_cast<size_t>(n) * sizeof(float)) == 0;
}

template <class Block>
std::vector<float> dequantise_one(const Block& block) {
  std::vector<float> out(Block::kElems);
  dequantise_row(Block::kType, reinterpret_cast<const std::byte*>(&block), Block::kElems, out.data());
  return out;
}

TEST(Reference, DequantisesEveryRecordedVectorBitForBit) {
  for (const Vector& v : all_vectors()) {
    const std::vector<std::byte> blocks = read_blocks(v.name);
    const std::vector<float> wanted = read_floats(v.name);
    ASSERT_EQ(blocks.size(), row_bytes(v.type, kVectorElems)) << v.name;
    ASSERT_EQ(wanted.size(), static_cast<size_t>(kVectorElems)) << v.name;
    std::vector<float> values(wanted.size(), NAN);
    dequantise_row(v.type, blocks.data(), kVectorElems, values.data());
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(wanted[i])) << v.name << " element " << i;
    }
  }
}

TEST(Reference, RowsMayStartAtAnyAddress) {
  for (const TypeTraits& t : all_types()) {
    const int64_t n = 512;
    std::vector<std::byte> blocks(row_bytes(t.type, n));
    random_blocks(t.type, 3, n / t.block_elems, blocks.data());
    std::vector<float> wanted(static_cast<size_t>(n));
    dequantise_row(t.type, blocks.data(), n, wanted.data());
    for (size_t shift = 1; shift < 8; ++shift) {
      std::vector<std::byte> shifted(shift + blocks.size());
      std::copy(blocks.begin(), blocks.end(), shifted.begin() + static_cast<std::ptrdiff_t>(shift));
      std::vector<float> values(wanted.size());
      dequantise_row(t.type, shifted.data() + shift, n, values.data());
      EXPECT_TRUE(same_bits(values.data(), wanted.data(), n)) << t.name << " + " << shift;
    }
  }
}

TEST(Reference, WritesOnlyTheElementsOfTheRow) {
  for (const TypeTraits& t : all_types()) {
    const int64_t n = t.block_elems;
    std::vector<std::byte> blocks(row_bytes(t.type, n));
    random_blocks(t.type, 4, 1, blocks.data());
    std::vector<float> values(static_cast<size_t>(n) + 2, 77.0f);
    dequantise_row(t.type, blocks.data(), n, values.data() + 1);
    EXPECT_EQ(values.front(), 77.0f) << t.name;
    EXPECT_EQ(values.back(), 77.0f) << t.name;
    dequantise_row(t.type, blocks.data(), 0, values.data());
    EXPECT_EQ(values.front(), 77.0f) << t.name;
  }
}

TEST(Reference, DotIsTheSumInOrderOfWhatDequantiseGives) {
  for (const TypeTraits& t : all_types()) {
    for (const int64_t n_blocks : {1, 2, 7, 33}) {
      const int64_t n = n_blocks * t.block_elems;
      std::vector<std::byte> blocks(row_bytes(t.type, n));
      random_blocks(t.type, 5, n_blocks, blocks.data(), 1.0f);
      std::vector<float> x(static_cast<size_t>(n));
      random_blocks(DType::F32, 6, n, reinterpret_cast<std::byte*>(x.data()), 1.0f);
      std::vector<float> values(x.size());
      dequantise_row(t.type, blocks.data(), n, values.data());
      double wanted = 0;
      for (size_t i = 0; i < x.size(); ++i) wanted += static_cast<double>(values[i]) * static_cast<double>(x[i]);
      EXPECT_EQ(dot_reference(t.type, blocks.data(), x.data(), n), wanted) << t.name << " x " << n_blocks;
      EXPECT_NE(wanted, 0) << t.name;
    }
  }
}

TEST(Reference, ScalesAtTheEdgesOfTheirFormatDecodeExactly) {
  BlockQ8_0 q8{};
  q8.qs[0] = -128;
  q8.qs[31] = 127;
  q8.d = 0x7bff;  // largest
  EXPECT_EQ(dequantise_one(q8)[0], -128.0f * 65504.0f);
  EXPECT_EQ(dequantise_one(q8)[31], 127.0f * 65504.0f);
  q8.d = 0x0001;  // smallest subnormal
  EXPECT_EQ(dequantise_one(q8)[0], -0x1p-17f);
  q8.d = 0x8001;
  EXPECT_EQ(dequantise_one(q8)[0], 0x1p-17f);
  q8.d = 0x7c00;  // infinite
  EXPECT_EQ(dequantise_one(q8)[31], INFINITY);
  q8.d = 0x7e00;
  EXPECT_TRUE(std::isnan(dequantise_one(q8)[31]));

  BlockMXFP4 mx{};
  mx.qs[0] = 0x17;  // 6 and 0.5
  mx.e = 0;
  EXPECT_EQ(dequantise_one(mx)[0], 12 * 0x1p-128f);
  EXPECT_EQ(dequantise_one(mx)[16], 0x1p-128f);
  mx.e = 252;
  EXPECT_EQ(dequantise_one(mx)[0], 12 * 0x1p124f);

  BlockQ4_K q4{};
  q4.d = q4.dmin = 0x7bff;
  std::fill(std::begin(q4.scales), std::end(q4.scales), uint8_t{0xff});
  EXPECT_EQ(dequantise_one(q4)[0], -63.0f * 65504.0f);
  std::fill(std::begin(q4.qs), std::end(q4.qs), uint8_t{0xff});
  EXPECT_EQ(dequantise_one(q4)[255], 14.0f * 63.0f * 65504.0f);
}

TEST(Reference, EveryBitPatternDecodesWithoutTouchingAnythingElse) {
  for (const TypeTraits& t : all_types()) {
    for (const int fill : {0x00, 0x55, 0x80, 0xaa, 0xff}) {
      std::vector<std::byte> block(static_cast<size_t>(t.block_bytes), static_cast<std::byte>(fill));
      std::vector<float> values(static_cast<size_t>(t.block_elems), 77.0f);
      dequantise_row(t.type, block.data(), t.block_elems, values.data());
      EXPECT_EQ(std::count(values.begin(), values.end(), 77.0f), 0) << t.name << " filled with " << fill;
      const auto zeros = std::count(values.begin(), values.end(), 0.0f);
      EXPECT_TRUE(fill != 0 || zeros == t.block_elems) << t.name;
    }
  }
}

TEST(ReferenceDeathTest, PartOfABlockIsABugOfTheCaller) {
  float out[64];
  const std::byte bytes[64] = {};
  EXPECT_DEATH(dequantise_row(DType::Q8_0, bytes, 33, out), "33 elements are not whole blocks of Q8_0");
}

}  // namespace
}  // namespace strata
