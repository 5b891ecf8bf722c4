// Decoders of the IQ formats. All but IQ4 work on eight elements at once: a grid entry (magnitudes), a sign byte, a
// scale.
#include <array>

#include "quant/codebooks.h"
#include "quant/decode.h"
#include "quant/formats.h"
#include "quant/half.h"

namespace strata {
namespace {

uint32_t load_u32(const uint8_t* bytes) {
  uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// y[j] = scale * magnitude j, negated where bit j of `signs` is set.
// Two's complement of the chosen bytes; magnitudes are never 0, so no carry leaves its byte.
void write_eight(uint64_t magnitudes, uint8_t signs, float scale, float* y) {
  const uint64_t negative = kByteMasks[signs];
  const uint64_t packed = (magnitudes ^ negative) + (negative & 0x0101010101010101u);
  const auto values = std::bit_cast<std::array<int8_t, 8>>(packed);
  for (size_t j = 0; j < 8; ++j) y[j] = scale * static_cast<float>(values[j]);
}

// Two neighbouring entries of a grid of fours.
template <size_t n>
uint64_t two_fours(const std::array<uint32_t, n>& grid, size_t first, size_t second) {
  return grid[first] | static_cast<uint64_t>(grid[second]) << 32;
}

// IQ1: y[j] = scale * (grid value + shift).
void write_eight_shifted(uint64_t grid_entry, float shift, float scale, float* y) {
  const auto values = std::bit_cast<std::array<int8_t, 8>>(grid_entry);
  for (size_t j = 0; j < 8; ++j) y[j] = scale * (static_cast<float>(values[j]) + shift);
}

void decode_iq1_s(const BlockIQ1_S& b, float* y) {
  const float d = half_to_float(b.d);
  for (int g = 0; g < 8; ++g) {
    const uint32_t qh = b.qh[g];
    const float scale = d * static_cast<float>(2 * ((qh >> 12) & 7) + 1);
    const float shift = qh & 0x8000 ? -0.125f : 0.125f;
    for (int k = 0; k < 4; ++k) {
      const uint32_t index = b.qs[4 * g + k] | ((qh >> (3 * k)) & 7) << 8;
      write_eight_shifted(kIq1sGrid[index], shift, scale, y + 32 * g + 8 * k);
    }
  }
}

void decode_iq1_m(const BlockIQ1_M& b, float* y) {
  const float d = half_to_float(iq1_m_d(b));
  for (int k = 0; k < 32; ++k) {  // eights; two share a scale, two share a byte of qh
    const int scale_bits = (b.scales[k / 8] >> (3 * (k / 2 % 4))) & 7;
    const float scale = d * static_cast<float>(2 * scale_bits + 1);
    const uint32_t high = (b.qh[k / 2] >> (4 * (k % 2))) & 15u;
    const uint32_t index = b.qs[k] | (high & 7) << 8;
    write_eight_shifted(kIq1sGrid[index], high & 8 ? -0.125f : 0.125f, scale, y + 8 * k);
  }
}

void decode_iq2_xxs(const BlockIQ2_XXS& b, float* y) {
  const float d = half_to_float(b.d);
  for (int g = 0; g < 8; ++g) {
    const uint8_t* indices = b.groups + 8 * g;
    const uint32_t signs_scale = load_u32(indices + 4);
    const float scale = d * (0.5f + static_cast<float>(signs_scale >> 28)) * 0.25f;
    for (int k = 0; k < 4; ++k) {
      const uint8_t signs = kEvenSigns[(signs_scale >> (7 * k)) & 127];
      write_eight(kIq2xxsGrid[indices[k]], signs, scale, y + 32 * g + 8 * k);
    }
  }
}

// IQ2_XS and IQ2_S: half a byte of scale per 16 elements, that is per two eights.
float iq2_scale(float d, const uint8_t* scales, int eight) {
  const int code = (scales[eight / 4] >> (4 * (eight / 2 % 2))) & 15;
  return d * (0.5f + static_cast<float>(code)) * 0.25f;
}

void decode_iq2_xs(const BlockIQ2_XS& b, float* y) {
  const float d = half_to_float(b.d);
  for (int k = 0; k < 32; ++k) {
    const uint32_t q = b.qs[k];
    write_eight(kIq2xsGrid[q & 511], kEvenSigns[q >> 9], iq2_scale(d, b.scales, k), y + 8 * k);
  }
}

void decode_iq2_s(const BlockIQ2_S& b, float* y) {
  const float d = half_to_float(b.d);
  for (int k = 0; k < 32; ++k) {
    const uint32_t high = (b.qh[k / 4] >> (2 * (k % 4))) & 3u;
    write_eight(kIq2sGrid[b.qs[k] | high << 8], b.signs[k], iq2_scale(d, b.scales, k), y + 8 * k);
  }
}

void decode_iq3_xxs(const BlockIQ3_XXS& b, float* y) {
  const float d = half_to_float(b.d);
  for (int g = 0; g < 8; ++g) {
    const uint8_t* indices = b.qs + 8 * g;
    const uint32_t signs_scale = load_u32(b.signs_scales + 4 * g);
    const float scale = d * (0.5f + static_cast<float>(signs_scale >> 28)) * 0.5f;
    for (int k = 0; k < 4; ++k) {
      const uint8_t signs = kEvenSigns[(signs_scale >> (7 * k)) & 127];
      write_eight(two_fours(kIq3xxsGrid, indices[2 * k], indices[2 * k + 1]), signs, scale, y + 32 * g + 8 * k);
    }
  }
}

void decode_iq3_s(const BlockIQ3_S& b, float* y) {
  const float d = half_to_float(b.d);
  for (int g = 0; g < 8; ++g) {
    const uint8_t* indices = b.qs + 8 * g;
    const uint32_t high = b.qh[g];
    const int scale_bits = (b.scales[g / 2] >> (4 * (g % 2))) & 15;
    const float scale = d * static_cast<float>(1 + 2 * scale_bits);
    for (int k = 0; k < 4; ++k) {
      const uint32_t first = indices[2 * k] | ((high >> (2 * k)) & 1) << 8;
      const uint32_t second = indices[2 * k + 1] | ((high >> (2 * k + 1)) & 1) << 8;
      write_eight(two_fours(kIq3sGrid, first, second), b.signs[4 * g + k], scale, y + 32 * g + 8 * k);
    }
  }
}

// 32 elements of IQ4_NL and IQ4_XS: low halves of 16 bytes, then high halves, through the table of values.
void write_iq4(const uint8_t* bytes, float scale, float* y) {
  for (int j = 0; j < 16; ++j) y[j] = scale * static_cast<float>(kIq4nlValues[bytes[j] & 15]);
  for (int j = 0; j < 16; ++j) y[16 + j] = scale * static_cast<float>(kIq4nlValues[bytes[j] >> 4]);
}

void decode_iq4_nl(const BlockIQ4_NL& b, float* y) {
  write_iq4(b.qs, half_to_float(b.d), y);
}

void decode_iq4_xs(const BlockIQ4_XS& b, float* y) {
  const float d = half_to_float(b.d);
  for (int g = 0; g < 8; ++g) write_iq4(b.qs + 16 * g, d * static_cast<float>(iq4_xs_scale_of_group(b, g)), y + 32 * g);
}

}  // namespace

RowDecoder iq_row_decoder(DType type) {
  switch (type) {
    case DType::IQ1_S:
      return decode_row<BlockIQ1_S, decode_iq1_s>;
    case DType::IQ1_M:
      return decode_row<BlockIQ1_M, decode_iq1_m>;
    case DType::IQ2_XXS:
      return decode_row<BlockIQ2_XXS, decode_iq2_xxs>;
    case DType::IQ2_XS:
      return decode_row<BlockIQ2_XS, decode_iq2_xs>;
    case DType::IQ2_S:
      return decode_row<BlockIQ2_S, decode_iq2_s>;
    case DType::IQ3_XXS:
      return decode_row<BlockIQ3_XXS, decode_iq3_xxs>;
    case DType::IQ3_S:
      return decode_row<BlockIQ3_S, decode_iq3_s>;
    case DType::IQ4_NL:
      return decode_row<BlockIQ4_NL, decode_iq4_nl>;
    case DType::IQ4_XS:
      return decode_row<BlockIQ4_XS, decode_iq4_xs>;
    default:
      return nullptr;
  }
}

}  // namespace strata
