// Small floating-point formats to and from float: fp16, bfloat16, and the scale bytes of the FP4 formats.
// Every value converts exactly; narrowing rounds to nearest, ties to even. Integer arithmetic only where it matters,
// so results do not depend on the compiler, on intrinsics or on flush-to-zero modes.
#pragma once

#include <bit>
#include <cstdint>

namespace strata {

// Infinities stay infinite and a NaN keeps its sign and payload.
constexpr float half_to_float(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  const uint32_t rebias = (magnitude >= 0x7c00u ? 224u : 112u) << 23;  // exponent 31 must become 255
  const uint32_t normal = (magnitude << 13) + rebias;
  // A subnormal is magnitude * 2^-24: placed under the leading bit of 0.5, then 0.5 is taken away; exact.
  const float subnormal = std::bit_cast<float>(0x3f000000u | (magnitude & 0x3ffu)) - 0.5f;
  return std::bit_cast<float>(sign | (magnitude < 0x400u ? std::bit_cast<uint32_t>(subnormal) : normal));
}

// Too large becomes infinity; a NaN becomes a quiet NaN.
constexpr uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520, half way between the largest half and the next step
    half = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // 2^-14, the smallest normal half
    half = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  } else if (magnitude < 0x33000000u) {  // below 2^-25: nearer to zero than to 2^-24
    half = 0;
  } else {
    const uint32_t shift = 126u - (magnitude >> 23);  // 14 .. 24
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    half = (mantissa + (1u << (shift - 1)) - 1u + ((mantissa >> shift) & 1u)) >> shift;
  }
  return static_cast<uint16_t>(sign | half);
}

constexpr float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

constexpr uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// MXFP4 scale byte: 2^(byte - 128), half of its E8M0 value because the code book holds doubled values.
constexpr float e8m0_half_to_float(uint8_t byte) {
  return std::bit_cast<float>(byte < 2 ? 0x00200000u << byte : (byte - 1u) << 23);  // 0 and 1 are subnormal floats
}

// NVFP4 scale byte: unsigned, 4 exponent bits with bias 7, 3 mantissa bits; 0x7f (NaN) counts as 0.
constexpr float ue4m3_to_float(uint8_t byte) {
  if (byte == 0x7f) return 0.0f;
  const uint32_t exponent = (byte >> 3) & 15u;
  const uint32_t mantissa = byte & 7u;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-9f;
  return std::bit_cast<float>(((exponent + 120u) << 23) | (mantissa << 20));
}

}  // namespace strata
