// The blocks of every quantised format as they lie in a file: little endian, no padding, any alignment (copy before
// use). d is the fp16 scale, dmin or m the fp16 offset, qs the low bits of the codes, qh the high bits. How blocks
// become numbers: reference.cpp and reference_iq.cpp. Code books: codebooks.h.
#pragma once

#include <bit>
#include <cstdint>

#include "tensor/tensor.h"

namespace strata {

static_assert(std::endian::native == std::endian::little, "weight files are read as they are");

// Half-byte codes: element j is the low half of qs[j], element j + 16 the high half, unless noted.
struct BlockQ4_0 {
  static constexpr DType kType = DType::Q4_0;
  static constexpr int kElems = 32;
  uint16_t d;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

struct BlockQ4_1 {
  static constexpr DType kType = DType::Q4_1;
  static constexpr int kElems = 32;
  uint16_t d, m;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

struct BlockQ5_0 {
  static constexpr DType kType = DType::Q5_0;
  static constexpr int kElems = 32;
  uint16_t d;
  uint8_t qh[4];  // bit j (of 32): fifth bit of element j
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

struct BlockQ5_1 {
  static constexpr DType kType = DType::Q5_1;
  static constexpr int kElems = 32;
  uint16_t d, m;
  uint8_t qh[4];
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

struct BlockQ8_0 {
  static constexpr DType kType = DType::Q8_0;
  static constexpr int kElems = 32;
  uint16_t d;
  int8_t qs[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

struct BlockQ2_0 {
  static constexpr DType kType = DType::Q2_0;
  static constexpr int kElems = 64;
  uint16_t d;
  uint8_t qs[16];  // element j: bits 2 (j % 4) of qs[j / 4]
};
static_assert(sizeof(BlockQ2_0) == 18);

// K formats: 256 elements in groups of 16 or 32, each with a small integer scale.
struct BlockQ2_K {
  static constexpr DType kType = DType::Q2_K;
  static constexpr int kElems = 256;
  uint8_t scales[16];  // low half: scale, high half: offset, of 16 elements
  uint8_t qs[64];      // per 128 elements 32 bytes; bits 2g of byte l: element l of the 32-group g
  uint16_t d, dmin;
};
static_assert(sizeof(BlockQ2_K) == 84);

struct BlockQ3_K {
  static constexpr DType kType = DType::Q3_K;
  static constexpr int kElems = 256;
  uint8_t hmask[32];  // bit g of byte l: high bit of element l of the 32-group g (0 .. 7)
  uint8_t qs[64];     // as Q2_K
  uint8_t scales[12];
  uint16_t d;
};
static_assert(sizeof(BlockQ3_K) == 110);

struct BlockQ4_K {
  static constexpr DType kType = DType::Q4_K;
  static constexpr int kElems = 256;
  uint16_t d, dmin;
  uint8_t scales[12];
  uint8_t qs[128];  // per 64 elements 32 bytes: low halves are the first 32, high halves the next
};
static_assert(sizeof(BlockQ4_K) == 144);

struct BlockQ5_K {
  static constexpr DType kType = DType::Q5_K;
  static constexpr int kElems = 256;
  uint16_t d, dmin;
  uint8_t scales[12];
  uint8_t qh[32];  // bit g of byte l: fifth bit of element l of the 32-group g
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ5_K) == 176);

struct BlockQ6_K {
  static constexpr DType kType = DType::Q6_K;
  static constexpr int kElems = 256;
  uint8_t ql[128];    // per 128 elements 64 bytes: low halves are the first 64, high halves the next
  uint8_t qh[64];     // per 128 elements 32 bytes: bits 2g of byte l: element l of the 32-group g
  int8_t scales[16];  // of 16 elements
  uint16_t d;
};
static_assert(sizeof(BlockQ6_K) == 210);

// IQ formats: codes are indices of grid entries (4 or 8 elements at once), signs are kept apart.
struct BlockIQ1_S {
  static constexpr DType kType = DType::IQ1_S;
  static constexpr int kElems = 256;
  uint16_t d;
  uint8_t qs[32];
  uint16_t qh[8];  // per 32 elements: four times 3 high index bits, 3 scale bits, sign of the shift
};
static_assert(sizeof(BlockIQ1_S) == 50);

struct BlockIQ1_M {
  static constexpr DType kType = DType::IQ1_M;
  static constexpr int kElems = 256;
  uint8_t qs[32];
  uint8_t qh[16];      // half a byte per 8 elements: 3 high index bits, sign of the shift
  uint16_t scales[4];  // per 64 elements: four 3-bit scales; the top 4 bits together are the fp16 d, lowest part first
};
static_assert(sizeof(BlockIQ1_M) == 56);

struct BlockIQ2_XXS {
  static constexpr DType kType = DType::IQ2_XXS;
  static constexpr int kElems = 256;
  uint16_t d;
  uint8_t groups[64];  // per 32 elements: 4 grid indices, then 32 bits: four 7-bit sign codes and a 4-bit scale
};
static_assert(sizeof(BlockIQ2_XXS) == 66);

struct BlockIQ2_XS {
  static constexpr DType kType = DType::IQ2_XS;
  static constexpr int kElems = 256;
  uint16_t d;
  uint16_t qs[32];    // per 8 elements: 9-bit grid index, 7-bit sign code
  uint8_t scales[8];  // per 32 elements: low half for the first 16
};
static_assert(sizeof(BlockIQ2_XS) == 74);

struct BlockIQ2_S {
  static constexpr DType kType = DType::IQ2_S;
  static constexpr int kElems = 256;
  uint16_t d;
  uint8_t qs[32];     // low 8 bits of the grid indices
  uint8_t signs[32];  // one bit per element
  uint8_t qh[8];      // per 32 elements: four times 2 high index bits
  uint8_t scales[8];
};
static_assert(sizeof(BlockIQ2_S) == 82);

struct BlockIQ3_XXS {
  static constexpr DType kType = DType::IQ3_XXS;
  static constexpr int kElems = 256;
  uint16_t d;
  uint8_t qs[64];            // a grid index per 4 elements
  uint8_t signs_scales[32];  // per 32 elements 32 bits: four 7-bit sign codes and a 4-bit scale
};
static_assert(sizeof(BlockIQ3_XXS) == 98);

struct BlockIQ3_S {
  static constexpr DType kType = DType::IQ3_S;
  static constexpr int kElems = 256;
  uint16_t d;
  uint8_t qs[64];
  uint8_t qh[8];  // bit k: ninth index bit of the k-th four of the 32-group
  uint8_t signs[32];
  uint8_t scales[4];  // half a byte per 32 elements
};
static_assert(sizeof(BlockIQ3_S) == 110);

// Codes are indices of a table of 16 values.
struct BlockIQ4_NL {
  static constexpr DType kType = DType::IQ4_NL;
  static constexpr int kElems = 32;
  uint16_t d;
  uint8_t qs[16];
};
static_assert(sizeof(BlockIQ4_NL) == 18);

struct BlockIQ4_XS {
  static constexpr DType kType = DType::IQ4_XS;
  static constexpr int kElems = 256;
  uint16_t d;
  uint16_t scales_h;    // two high scale bits per 32 elements
  uint8_t scales_l[4];  // half a byte per 32 elements
  uint8_t qs[128];      // per 32 elements 16 bytes, as IQ4_NL
};
static_assert(sizeof(BlockIQ4_XS) == 136);

struct BlockMXFP4 {
  static constexpr DType kType = DType::MXFP4;
  static constexpr int kElems = 32;
  uint8_t e;  // e8m0_half_to_float
  uint8_t qs[16];
};
static_assert(sizeof(BlockMXFP4) == 17);

struct BlockNVFP4 {
  static constexpr DType kType = DType::NVFP4;
  static constexpr int kElems = 64;
  uint8_t scales[4];  // ue4m3_to_float, of 16 elements
  uint8_t qs[32];     // per 16 elements 8 bytes: low halves are the first 8, high halves the next
};
static_assert(sizeof(BlockNVFP4) == 36);

// The 6-bit scale and offset of 32-group j (0 .. 7) of Q4_K and Q5_K, from 12 bytes.
struct ScaleMin {
  int scale;
  int min;
};
inline ScaleMin scale_min_of_group(const uint8_t* scales, int j) {
  if (j < 4) return {scales[j] & 63, scales[j + 4] & 63};
  return {(scales[j + 4] & 15) | (scales[j - 4] >> 6) << 4, (scales[j + 4] >> 4) | (scales[j] >> 6) << 4};
}

// The scale (-32 .. 31) of 16-group j (0 .. 15) of Q3_K, from 12 bytes.
inline int q3_scale_of_group(const uint8_t* scales, int j) {
  const int low = j < 8 ? scales[j] & 15 : scales[j - 8] >> 4;
  const int high = (scales[8 + j % 4] >> (2 * (j / 4))) & 3;
  return (low | high << 4) - 32;
}

// The scale (-32 .. 31) of 32-group j (0 .. 7) of IQ4_XS.
inline int iq4_xs_scale_of_group(const BlockIQ4_XS& block, int j) {
  const int low = (block.scales_l[j / 2] >> (4 * (j % 2))) & 15;
  return (low | ((block.scales_h >> (2 * j)) & 3) << 4) - 32;
}

// The fp16 scale of IQ1_M, spread over the top bits of its four scale words.
inline uint16_t iq1_m_d(const BlockIQ1_M& block) {
  const uint16_t* s = block.scales;
  return static_cast<uint16_t>((s[0] >> 12) | (s[1] >> 8 & 0x00f0) | (s[2] >> 4 & 0x0f00) | (s[3] & 0xf000));
}

}  // namespace strata
