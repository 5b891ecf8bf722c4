#include "quant/half.h"

#include <cmath>
#include <limits>

namespace strata {
namespace {

uint32_t bits_of(float value) {
  return std::bit_cast<uint32_t>(value);
}

// What 16 bits with `exponent_bits` mean, from the definition.
double meaning(uint32_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double mantissa = static_cast<double>(bits & ((1u << mantissa_bits) - 1));
  const double value = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                     : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return bits & 0x8000 ? -value : value;
}

struct Narrow {
  const char* name;
  int exponent_bits;
  uint32_t infinity;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
};
constexpr Narrow kNarrow[] = {{"fp16", 5, 0x7c00, half_to_float, float_to_half},
                              {"bf16", 8, 0x7f80, bf16_to_float, float_to_bf16}};

TEST(Half, EveryOfThe65536PatternsWidensToItsMeaningAndBack) {
  for (const Narrow& f : kNarrow) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const float value = f.widen(static_cast<uint16_t>(bits));
      const uint32_t magnitude = bits & 0x7fff;
      if (magnitude > f.infinity) {
        ASSERT_TRUE(std::isnan(value)) << f.name << " " << bits;
        ASSERT_GT(f.narrow(value) & 0x7fffu, f.infinity) << f.name << " " << bits;
        ASSERT_EQ(f.narrow(value) & 0x8000u, bits & 0x8000u) << f.name << " " << bits;
        continue;
      }
      const double wanted = magnitude == f.infinity ? (bits & 0x8000 ? -1 : 1) * std::numeric_limits<double>::infinity()
                                                    : meaning(bits, f.exponent_bits);
      ASSERT_EQ(bits_of(value), bits_of(static_cast<float>(wanted))) << f.name << " " << bits;
      ASSERT_EQ(f.narrow(value), bits) << f.name;
    }
  }
}

TEST(Half, NarrowingRoundsToTheNearestAndTiesToEven) {
  for (const Narrow& f : kNarrow) {
    for (uint32_t low = 0; low < f.infinity; ++low) {
      const uint32_t high = low + 1;
      // Beyond the largest number the next step counts as infinity.
      const double middle = (meaning(low, f.exponent_bits) + meaning(high, f.exponent_bits)) / 2;
      const float tie = static_cast<float>(middle);
      ASSERT_EQ(static_cast<double>(tie), middle);
      for (const uint32_t sign : {0u, 0x8000u}) {
        const float s = sign ? -1.0f : 1.0f;
        ASSERT_EQ(f.narrow(s * tie), sign | (low % 2 == 0 ? low : high)) << f.name;
        ASSERT_EQ(f.narrow(s * std::nextafter(tie, 0.0f)), sign | low) << f.name;
        ASSERT_EQ(f.narrow(s * std::nextafter(tie, INFINITY)), sign | high) << f.name;
      }
    }
  }
}

TEST(Half, HugeAndTinyFloatsBecomeInfinityAndZero) {
  EXPECT_EQ(float_to_half(65504.0f), 0x7bff);
  EXPECT_EQ(float_to_half(3e38f), 0x7c00);
  EXPECT_EQ(float_to_half(-INFINITY), 0xfc00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(float_to_half(-1e-30f), 0x8000);
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(float_to_bf16(-INFINITY), 0xff80);
}

TEST(Half, ANanWhosePayloadIsOnlyInTheLostBitsStaysANan) {
  const float nan = std::bit_cast<float>(0xff800001u);
  EXPECT_TRUE(std::isnan(half_to_float(float_to_half(nan))));
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(nan))));
}

TEST(Half, ScaleBytesOfFp4MeanWhatTheirDefinitionSays) {
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(bits_of(e8m0_half_to_float(static_cast<uint8_t>(byte))), bits_of(std::ldexp(1.0f, byte - 128))) << byte;
  }
  for (int byte = 0; byte < 0x7f; ++byte) {
    const int exponent = byte >> 3;
    const float mantissa = static_cast<float>(byte & 7);
    const float wanted = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    EXPECT_EQ(bits_of(ue4m3_to_float(static_cast<uint8_t>(byte))), bits_of(wanted)) << byte;
  }
  EXPECT_EQ(ue4m3_to_float(0x7e), 448.0f);
  EXPECT_EQ(ue4m3_to_float(0x7f), 0.0f);
}

}  // namespace
}  // namespace strata
