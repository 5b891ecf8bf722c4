// Decoders of the plain, Q, K and FP4 formats. Codes are first unpacked to signed bytes, then scaled group by group:
// both loops are simple enough for compilers to vectorise.
#include "quant/reference.h"

#include <algorithm>

#include "base/check.h"
#include "quant/codebooks.h"
#include "quant/decode.h"
#include "quant/formats.h"
#include "quant/half.h"

namespace strata {
namespace {

void decode_f32(const std::byte* values, int64_t n, float* out) {
  if (n > 0) std::memcpy(out, values, static_cast<size_t>(n) * sizeof(float));
}

template <float (*to_float)(uint16_t)>
void decode_16bit(const std::byte* values, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t bits;
    std::memcpy(&bits, values + 2 * i, sizeof bits);
    out[i] = to_float(bits);
  }
}

// Low halves of n bytes to codes[0 .. n), high halves to codes[n .. 2n).
template <int n>
void unpack_halves(const uint8_t* bytes, int8_t* codes) {
  for (int j = 0; j < n; ++j) codes[j] = static_cast<int8_t>(bytes[j] & 15);
  for (int j = 0; j < n; ++j) codes[n + j] = static_cast<int8_t>(bytes[j] >> 4);
}

template <int n>
void scale_codes(const int8_t* codes, float scale, float* y) {
  for (int j = 0; j < n; ++j) y[j] = scale * static_cast<float>(codes[j]);
}

template <int n>
void scale_codes(const int8_t* codes, float scale, float offset, float* y) {
  for (int j = 0; j < n; ++j) y[j] = scale * static_cast<float>(codes[j]) + offset;
}

// Adds 16 to each of 32 codes whose bit in qh is set.
void add_fifth_bits(const uint8_t* qh, int8_t* codes) {
  for (int byte = 0; byte < 4; ++byte) {
    uint64_t eight;
    std::memcpy(&eight, codes + 8 * byte, 8);
    eight |= kByteMasks[qh[byte]] & 0x1010101010101010u;
    std::memcpy(codes + 8 * byte, &eight, 8);
  }
}

void decode_q4_0(const BlockQ4_0& b, float* y) {
  int8_t codes[32];
  unpack_halves<16>(b.qs, codes);
  for (int8_t& c : codes) c = static_cast<int8_t>(c - 8);
  scale_codes<32>(codes, half_to_float(b.d), y);
}

void decode_q4_1(const BlockQ4_1& b, float* y) {
  int8_t codes[32];
  unpack_halves<16>(b.qs, codes);
  scale_codes<32>(codes, half_to_float(b.d), half_to_float(b.m), y);
}

void decode_q5_0(const BlockQ5_0& b, float* y) {
  int8_t codes[32];
  unpack_halves<16>(b.qs, codes);
  add_fifth_bits(b.qh, codes);
  for (int8_t& c : codes) c = static_cast<int8_t>(c - 16);
  scale_codes<32>(codes, half_to_float(b.d), y);
}

void decode_q5_1(const BlockQ5_1& b, float* y) {
  int8_t codes[32];
  unpack_halves<16>(b.qs, codes);
  add_fifth_bits(b.qh, codes);
  scale_codes<32>(codes, half_to_float(b.d), half_to_float(b.m), y);
}

void decode_q8_0(const BlockQ8_0& b, float* y) {
  scale_codes<32>(b.qs, half_to_float(b.d), y);
}

void decode_q2_0(const BlockQ2_0& b, float* y) {
  int8_t codes[64];
  for (int j = 0; j < 16; ++j) {
    for (int k = 0; k < 4; ++k) codes[4 * j + k] = static_cast<int8_t>(((b.qs[j] >> (2 * k)) & 3) - 1);
  }
  scale_codes<64>(codes, half_to_float(b.d), y);
}

// The 2-bit codes of Q2_K and Q3_K: per 128 elements 32 bytes, bits 2g for the g-th 32 of them.
void unpack_2bit(const uint8_t* qs, int8_t* codes) {
  for (int half = 0; half < 2; ++half) {
    for (int g = 0; g < 4; ++g) {
      for (int l = 0; l < 32; ++l)
        codes[128 * half + 32 * g + l] = static_cast<int8_t>((qs[32 * half + l] >> (2 * g)) & 3);
    }
  }
}

void decode_q2_k(const BlockQ2_K& b, float* y) {
  int8_t codes[256];
  unpack_2bit(b.qs, codes);
  const float d = half_to_float(b.d);
  const float dmin = half_to_float(b.dmin);
  for (int g = 0; g < 16; ++g) {
    const float scale = d * static_cast<float>(b.scales[g] & 15);
    const float min = dmin * static_cast<float>(b.scales[g] >> 4);
    scale_codes<16>(codes + 16 * g, scale, -min, y + 16 * g);
  }
}

void decode_q3_k(const BlockQ3_K& b, float* y) {
  int8_t codes[256];
  unpack_2bit(b.qs, codes);
  for (int g = 0; g < 8; ++g) {
    for (int l = 0; l < 32; ++l) {
      const int high = (b.hmask[l] >> g) & 1;
      codes[32 * g + l] = static_cast<int8_t>(codes[32 * g + l] + 4 * high - 4);
    }
  }
  const float d = half_to_float(b.d);
  for (int g = 0; g < 16; ++g) {
    scale_codes<16>(codes + 16 * g, d * static_cast<float>(q3_scale_of_group(b.scales, g)), y + 16 * g);
  }
}

// Q4_K and Q5_K: 8 groups of 32, each scale * code - min.
void scale_k_groups(const int8_t* codes, uint16_t d_bits, uint16_t dmin_bits, const uint8_t* scales, float* y) {
  const float d = half_to_float(d_bits);
  const float dmin = half_to_float(dmin_bits);
  for (int g = 0; g < 8; ++g) {
    const ScaleMin s = scale_min_of_group(scales, g);
    scale_codes<32>(codes + 32 * g, d * static_cast<float>(s.scale), -(dmin * static_cast<float>(s.min)), y + 32 * g);
  }
}

void decode_q4_k(const BlockQ4_K& b, float* y) {
  int8_t codes[256];
  for (int pair = 0; pair < 4; ++pair) unpack_halves<32>(b.qs + 32 * pair, codes + 64 * pair);
  scale_k_groups(codes, b.d, b.dmin, b.scales, y);
}

void decode_q5_k(const BlockQ5_K& b, float* y) {
  int8_t codes[256];
  for (int pair = 0; pair < 4; ++pair) unpack_halves<32>(b.qs + 32 * pair, codes + 64 * pair);
  for (int g = 0; g < 8; ++g) {
    for (int l = 0; l < 32; ++l) codes[32 * g + l] = static_cast<int8_t>(codes[32 * g + l] | ((b.qh[l] >> g) & 1) << 4);
  }
  scale_k_groups(codes, b.d, b.dmin, b.scales, y);
}

void decode_q6_k(const BlockQ6_K& b, float* y) {
  int8_t codes[256];
  for (int half = 0; half < 2; ++half) {
    int8_t* c = codes + 128 * half;
    unpack_halves<64>(b.ql + 64 * half, c);
    for (int g = 0; g < 4; ++g) {
      for (int l = 0; l < 32; ++l) {
        const int high = (b.qh[32 * half + l] >> (2 * g)) & 3;
        c[32 * g + l] = static_cast<int8_t>((c[32 * g + l] | high << 4) - 32);
      }
    }
  }
  const float d = half_to_float(b.d);
  for (int g = 0; g < 16; ++g) scale_codes<16>(codes + 16 * g, d * static_cast<float>(b.scales[g]), y + 16 * g);
}

// FP4: low halves of `n` bytes, then high halves, through the table.
template <int n>
void decode_fp4(const uint8_t* bytes, float scale, float* y) {
  for (int j = 0; j < n; ++j) y[j] = scale * static_cast<float>(kFp4DoubledValues[bytes[j] & 15]);
  for (int j = 0; j < n; ++j) y[n + j] = scale * static_cast<float>(kFp4DoubledValues[bytes[j] >> 4]);
}

void decode_mxfp4(const BlockMXFP4& b, float* y) {
  decode_fp4<16>(b.qs, e8m0_half_to_float(b.e), y);
}

void decode_nvfp4(const BlockNVFP4& b, float* y) {
  for (int g = 0; g < 4; ++g) decode_fp4<8>(b.qs + 8 * g, ue4m3_to_float(b.scales[g]) * 0.5f, y + 16 * g);
}

RowDecoder row_decoder(DType type) {
  switch (type) {
    case DType::F32:
      return decode_f32;
    case DType::F16:
      return decode_16bit<half_to_float>;
    case DType::BF16:
      return decode_16bit<bf16_to_float>;
    case DType::Q4_0:
      return decode_row<BlockQ4_0, decode_q4_0>;
    case DType::Q4_1:
      return decode_row<BlockQ4_1, decode_q4_1>;
    case DType::Q5_0:
      return decode_row<BlockQ5_0, decode_q5_0>;
    case DType::Q5_1:
      return decode_row<BlockQ5_1, decode_q5_1>;
    case DType::Q8_0:
      return decode_row<BlockQ8_0, decode_q8_0>;
    case DType::Q2_0:
      return decode_row<BlockQ2_0, decode_q2_0>;
    case DType::Q2_K:
      return decode_row<BlockQ2_K, decode_q2_k>;
    case DType::Q3_K:
      return decode_row<BlockQ3_K, decode_q3_k>;
    case DType::Q4_K:
      return decode_row<BlockQ4_K, decode_q4_k>;
    case DType::Q5_K:
      return decode_row<BlockQ5_K, decode_q5_k>;
    case DType::Q6_K:
      return decode_row<BlockQ6_K, decode_q6_k>;
    case DType::MXFP4:
      return decode_row<BlockMXFP4, decode_mxfp4>;
    case DType::NVFP4:
      return decode_row<BlockNVFP4, decode_nvfp4>;
    default:
      return iq_row_decoder(type);
  }
}

RowDecoder checked_decoder(DType type, int64_t n) {
  const RowDecoder decode = row_decoder(type);
  CHECK(decode != nullptr, "type id {}", static_cast<uint32_t>(type));
  CHECK(n >= 0 && n % traits(type).block_elems == 0, "{} elements are not whole blocks of {}", n, type_name(type));
  return decode;
}

}  // namespace

void dequantise_row(DType type, const std::byte* blocks, int64_t n, float* out) {
  checked_decoder(type, n)(blocks, n, out);
}

double dot_reference(DType type, const std::byte* blocks, const float* x, int64_t n) {
  const RowDecoder decode = checked_decoder(type, n);
  double sum = 0;
  float values[256];  // a whole number of blocks of every format
  for (int64_t at = 0; at < n; at += 256) {
    const int64_t count = std::min<int64_t>(256, n - at);
    decode(blocks + row_bytes(type, at), count, values);
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(x[at + i]);
  }
  return sum;
}

}  // namespace strata
