#include "quant/quantise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "quant/codebooks.h"
#include "quant/formats.h"
#include "quant/half.h"

namespace strata {
namespace {

constexpr float kHalfMax = 65504.0f;

uint16_t saturated_half(double value) {
  return float_to_half(static_cast<float>(std::clamp<double>(value, -kHalfMax, kHalfMax)));
}

// Nearest whole number in [low, high]; a value that is no number gives low.
int nearest_code(double value, int low, int high) {
  if (!(value > low)) return low;
  if (value >= high) return high;
  return low + static_cast<int>(value - low + 0.5);
}

double quotient(double value, double scale) {
  return scale == 0 ? 0 : value / scale;
}

// Whole numbers low .. high, each its own value.
struct WholeCodes {
  int low, high;
  int nearest(double value) const { return nearest_code(value, low, high); }
  double value(int code) const { return code; }
  double farthest() const { return -low >= high ? low : high; }
};

// Codes are indices of a table of 16 values.
struct TableCodes {
  const std::array<int8_t, 16>& table;
  int nearest(double value) const {
    int best = 0;
    for (int i = 1; i < 16; ++i) {
      if (std::fabs(value - this->value(i)) < std::fabs(value - this->value(best))) best = i;
    }
    return best;
  }
  double value(int code) const { return table[static_cast<size_t>(code)]; }
  double farthest() const {
    return *std::max_element(table.begin(), table.end(), [](int a, int b) { return std::abs(a) < std::abs(b); });
  }
};

// The scale with which `codes` follow x best: for several first guesses, the codes they give and the best scale of
// those codes.
template <class Codes>
double fit_scale(const float* x, int n, const Codes& codes) {
  double peak = 0;
  for (int i = 0; i < n; ++i) peak = std::fabs(x[i]) > std::fabs(peak) ? x[i] : peak;
  if (peak == 0) return 0;
  double best_scale = 0;
  double best_gain = 0;  // how much of sum(x x) the fit explains
  for (int step = -12; step <= 12; ++step) {
    const double inverse = codes.farthest() * (1 + 0.025 * step) / peak;
    double xq = 0;
    double qq = 0;
    for (int i = 0; i < n; ++i) {
      const double q = codes.value(codes.nearest(x[i] * inverse));
      xq += x[i] * q;
      qq += q * q;
    }
    if (qq > 0 && xq * xq / qq > best_gain) {
      best_gain = xq * xq / qq;
      best_scale = xq / qq;
    }
  }
  return best_scale;
}

struct Affine {
  double scale = 0;
  double offset = 0;
};

// x ~ scale * code + offset with codes 0 .. high and scale >= 0: guesses from the range of x, refined by least squares.
// The K formats store only offsets <= 0.
Affine fit_affine(const float* x, int n, int high, bool offset_at_most_zero) {
  double low = *std::min_element(x, x + n);
  const double top = *std::max_element(x, x + n);
  if (offset_at_most_zero) low = std::min(low, 0.0);
  Affine best{0, low};
  if (!(top > low)) return best;
  double best_error = -1;
  for (int step = -4; step <= 12; ++step) {
    const double inverse = (high + 0.1 * step) / (top - low);
    double q1 = 0, q2 = 0, x1 = 0, xq = 0;
    for (int i = 0; i < n; ++i) {
      const double q = nearest_code((x[i] - low) * inverse, 0, high);
      q1 += q;
      q2 += q * q;
      x1 += x[i];
      xq += x[i] * q;
    }
    const double determinant = n * q2 - q1 * q1;
    if (determinant <= 0) continue;
    Affine fit{(n * xq - x1 * q1) / determinant, (q2 * x1 - q1 * xq) / determinant};
    if (offset_at_most_zero && fit.offset > 0) fit = {xq / q2, 0};
    if (!(fit.scale > 0)) continue;
    double error = 0;
    for (int i = 0; i < n; ++i) {
      const double e = x[i] - fit.offset - fit.scale * nearest_code((x[i] - fit.offset) / fit.scale, 0, high);
      error += e * e;
    }
    if (best_error < 0 || error < best_error) {
      best_error = error;
      best = fit;
    }
  }
  return best;
}

// Codes 0 .. 15 of n elements: the first half to the low halves of n / 2 bytes, the second to the high halves.
void pack_halves(const uint8_t* codes, int n, uint8_t* bytes) {
  for (int j = 0; j < n / 2; ++j) bytes[j] = static_cast<uint8_t>((codes[j] & 15) | (codes[j + n / 2] & 15) << 4);
}

void pack_fifth_bits(const uint8_t* codes, uint8_t* qh) {
  std::memset(qh, 0, 4);
  for (int j = 0; j < 32; ++j) qh[j / 8] = static_cast<uint8_t>(qh[j / 8] | (codes[j] >> 4) << (j % 8));
}

// Unsigned codes of n elements around `zero`, with the stored scale.
void encode_whole(const float* x, int n, double scale, double offset, int zero, int high, uint8_t* codes) {
  for (int i = 0; i < n; ++i)
    codes[i] = static_cast<uint8_t>(nearest_code(quotient(x[i] - offset, scale) + zero, 0, high));
}

// Unsigned codes around `zero` for the Q formats without offset, taken with the rounded scale that is returned.
uint16_t encode_symmetric(const float* x, int n, int zero, int high, uint8_t* codes) {
  const uint16_t d = saturated_half(fit_scale(x, n, WholeCodes{-zero, high - zero}));
  encode_whole(x, n, half_to_float(d), 0, zero, high, codes);
  return d;
}

void encode(const float* x, BlockQ4_0& b) {
  uint8_t codes[32];
  b.d = encode_symmetric(x, 32, 8, 15, codes);
  pack_halves(codes, 32, b.qs);
}

void encode(const float* x, BlockQ5_0& b) {
  uint8_t codes[32];
  b.d = encode_symmetric(x, 32, 16, 31, codes);
  pack_halves(codes, 32, b.qs);
  pack_fifth_bits(codes, b.qh);
}

template <class Block>
void encode_affine(const float* x, int high, Block& b, uint8_t* codes) {
  const Affine fit = fit_affine(x, 32, high, false);
  b.d = saturated_half(fit.scale);
  b.m = saturated_half(fit.offset);
  encode_whole(x, 32, half_to_float(b.d), half_to_float(b.m), 0, high, codes);
  pack_halves(codes, 32, b.qs);
}

void encode(const float* x, BlockQ4_1& b) {
  uint8_t codes[32];
  encode_affine(x, 15, b, codes);
}

void encode(const float* x, BlockQ5_1& b) {
  uint8_t codes[32];
  encode_affine(x, 31, b, codes);
  pack_fifth_bits(codes, b.qh);
}

void encode(const float* x, BlockQ8_0& b) {
  float peak = 0;
  for (int i = 0; i < 32; ++i) peak = std::max(peak, std::fabs(x[i]));
  b.d = saturated_half(peak / 127.0f);
  const double d = half_to_float(b.d);
  for (int i = 0; i < 32; ++i) b.qs[i] = static_cast<int8_t>(nearest_code(quotient(x[i], d), -127, 127));
}

void encode(const float* x, BlockQ2_0& b) {
  uint8_t codes[64];
  b.d = encode_symmetric(x, 64, 1, 3, codes);
  for (int j = 0; j < 16; ++j) {
    const uint8_t* c = codes + 4 * j;
    b.qs[j] = static_cast<uint8_t>(c[0] | c[1] << 2 | c[2] << 4 | c[3] << 6);
  }
}

void pack_2bit(const uint8_t* codes, uint8_t* qs) {
  for (int i = 0; i < 64; ++i) {
    const uint8_t* c = codes + 128 * (i / 32) + i % 32;
    qs[i] = static_cast<uint8_t>((c[0] & 3) | (c[32] & 3) << 2 | (c[64] & 3) << 4 | (c[96] & 3) << 6);
  }
}

// Scales and offsets of the groups of a super-block as whole multiples of d and dmin.
template <int groups>
struct GroupCodes {
  uint16_t d, dmin;
  std::array<int, groups> scale, min;
};

template <int groups>
GroupCodes<groups> fit_groups(const float* x, int high, int scale_high) {
  std::array<Affine, groups> fits;
  Affine top;
  for (int g = 0; g < groups; ++g) {
    Affine& fit = fits[static_cast<size_t>(g)];
    fit = fit_affine(x + 256 / groups * g, 256 / groups, high, true);
    top = {std::max(top.scale, fit.scale), std::max(top.offset, -fit.offset)};
  }
  GroupCodes<groups> out{saturated_half(top.scale / scale_high), saturated_half(top.offset / scale_high), {}, {}};
  for (size_t g = 0; g < groups; ++g) {
    out.scale[g] = nearest_code(quotient(fits[g].scale, half_to_float(out.d)), 0, scale_high);
    out.min[g] = nearest_code(quotient(-fits[g].offset, half_to_float(out.dmin)), 0, scale_high);
  }
  return out;
}

template <int groups>
void encode_groups(const float* x, const GroupCodes<groups>& f, int high, uint8_t* codes) {
  for (int g = 0; g < groups; ++g) {
    const int at = 256 / groups * g;
    const double scale = half_to_float(f.d) * f.scale[static_cast<size_t>(g)];
    const double offset = -half_to_float(f.dmin) * f.min[static_cast<size_t>(g)];
    encode_whole(x + at, 256 / groups, scale, offset, 0, high, codes + at);
  }
}

void encode(const float* x, BlockQ2_K& b) {
  const GroupCodes<16> f = fit_groups<16>(x, 3, 15);
  uint8_t codes[256];
  encode_groups(x, f, 3, codes);
  b.d = f.d;
  b.dmin = f.dmin;
  for (size_t g = 0; g < 16; ++g) b.scales[g] = static_cast<uint8_t>(f.scale[g] | f.min[g] << 4);
  pack_2bit(codes, b.qs);
}

// The inverse of scale_min_of_group.
void pack_scale_mins(const GroupCodes<8>& f, uint8_t* scales) {
  for (size_t j = 0; j < 4; ++j) {
    scales[j] = static_cast<uint8_t>(f.scale[j] | (f.scale[j + 4] >> 4) << 6);
    scales[j + 4] = static_cast<uint8_t>(f.min[j] | (f.min[j + 4] >> 4) << 6);
    scales[j + 8] = static_cast<uint8_t>((f.scale[j + 4] & 15) | (f.min[j + 4] & 15) << 4);
  }
}

template <class Block>
void encode_k(const float* x, int high, Block& b, uint8_t* codes) {
  const GroupCodes<8> f = fit_groups<8>(x, high, 63);
  encode_groups(x, f, high, codes);
  b.d = f.d;
  b.dmin = f.dmin;
  pack_scale_mins(f, b.scales);
  for (int pair = 0; pair < 4; ++pair) pack_halves(codes + 64 * pair, 64, b.qs + 32 * pair);
}

void encode(const float* x, BlockQ4_K& b) {
  uint8_t codes[256];
  encode_k(x, 15, b, codes);
}

void encode(const float* x, BlockQ5_K& b) {
  uint8_t codes[256];
  encode_k(x, 31, b, codes);
  std::memset(b.qh, 0, sizeof b.qh);
  for (int i = 0; i < 256; ++i) b.qh[i % 32] = static_cast<uint8_t>(b.qh[i % 32] | (codes[i] >> 4) << (i / 32));
}

// Scales of the groups as whole multiples (low .. -low - 1) of the returned d.
template <int groups, class Codes>
uint16_t fit_signed_groups(const float* x, int low, const Codes& codes, int* scale_codes) {
  double scales[groups];
  double top = 0;
  for (int g = 0; g < groups; ++g) {
    scales[g] = fit_scale(x + 256 / groups * g, 256 / groups, codes);
    top = std::fabs(scales[g]) > std::fabs(top) ? scales[g] : top;
  }
  const uint16_t d = saturated_half(top / low);
  for (int g = 0; g < groups; ++g) scale_codes[g] = nearest_code(quotient(scales[g], half_to_float(d)), low, -low - 1);
  return d;
}

void encode(const float* x, BlockQ3_K& b) {
  int scales[16];
  b.d = fit_signed_groups<16>(x, -32, WholeCodes{-4, 3}, scales);
  uint8_t codes[256];
  std::memset(b.scales, 0, sizeof b.scales);
  for (int g = 0; g < 16; ++g) {
    encode_whole(x + 16 * g, 16, half_to_float(b.d) * scales[g], 0, 4, 7, codes + 16 * g);
    const int stored = scales[g] + 32;
    b.scales[g % 8] = static_cast<uint8_t>(b.scales[g % 8] | (stored & 15) << (4 * (g / 8)));
    b.scales[8 + g % 4] = static_cast<uint8_t>(b.scales[8 + g % 4] | (stored >> 4) << (2 * (g / 4)));
  }
  pack_2bit(codes, b.qs);
  std::memset(b.hmask, 0, sizeof b.hmask);
  for (int i = 0; i < 256; ++i) b.hmask[i % 32] = static_cast<uint8_t>(b.hmask[i % 32] | (codes[i] >> 2) << (i / 32));
}

void encode(const float* x, BlockQ6_K& b) {
  int scales[16];
  b.d = fit_signed_groups<16>(x, -128, WholeCodes{-32, 31}, scales);
  uint8_t codes[256];
  for (int g = 0; g < 16; ++g) {
    encode_whole(x + 16 * g, 16, half_to_float(b.d) * scales[g], 0, 32, 63, codes + 16 * g);
    b.scales[g] = static_cast<int8_t>(scales[g]);
  }
  for (int half = 0; half < 2; ++half) {
    const uint8_t* c = codes + 128 * half;
    pack_halves(c, 128, b.ql + 64 * half);
    for (int l = 0; l < 32; ++l) {
      b.qh[32 * half + l] =
          static_cast<uint8_t>(c[l] >> 4 | (c[l + 32] >> 4) << 2 | (c[l + 64] >> 4) << 4 | (c[l + 96] >> 4) << 6);
    }
  }
}

// n table codes with the stored scale, packed in halves.
void encode_table(const float* x, int n, double scale, const TableCodes& table, uint8_t* bytes) {
  uint8_t codes[32];
  for (int i = 0; i < n; ++i) codes[i] = static_cast<uint8_t>(table.nearest(quotient(x[i], scale)));
  pack_halves(codes, n, bytes);
}

void encode(const float* x, BlockIQ4_NL& b) {
  const TableCodes table{kIq4nlValues};
  b.d = saturated_half(fit_scale(x, 32, table));
  encode_table(x, 32, half_to_float(b.d), table, b.qs);
}

void encode(const float* x, BlockIQ4_XS& b) {
  const TableCodes table{kIq4nlValues};
  int scales[8];
  b.d = fit_signed_groups<8>(x, -32, table, scales);
  b.scales_h = 0;
  std::memset(b.scales_l, 0, sizeof b.scales_l);
  for (int g = 0; g < 8; ++g) {
    encode_table(x + 32 * g, 32, half_to_float(b.d) * scales[g], table, b.qs + 16 * g);
    const int stored = scales[g] + 32;
    b.scales_l[g / 2] = static_cast<uint8_t>(b.scales_l[g / 2] | (stored & 15) << (4 * (g % 2)));
    b.scales_h = static_cast<uint16_t>(b.scales_h | (stored >> 4) << (2 * g));
  }
}

double table_error(const float* x, int n, double scale, const TableCodes& table) {
  double error = 0;
  for (int i = 0; i < n; ++i) {
    const double e = x[i] - scale * table.value(table.nearest(quotient(x[i], scale)));
    error += e * e;
  }
  return error;
}

// The byte in [first, last] whose scale follows x best.
uint8_t best_scale_byte(const float* x, int n, int first, int last, double (*scale_of)(int)) {
  int best = first;
  double best_error = -1;
  for (int byte = first; byte <= last; ++byte) {
    const double error = table_error(x, n, scale_of(byte), TableCodes{kFp4DoubledValues});
    if (best_error < 0 || error < best_error) {
      best_error = error;
      best = byte;
    }
  }
  return static_cast<uint8_t>(best);
}

double mxfp4_scale(int byte) {
  return e8m0_half_to_float(static_cast<uint8_t>(byte));
}
double nvfp4_scale(int byte) {
  return ue4m3_to_float(static_cast<uint8_t>(byte)) * 0.5;
}

void encode(const float* x, BlockMXFP4& b) {
  const double fitted = std::fabs(fit_scale(x, 32, TableCodes{kFp4DoubledValues}));
  int exponent = -126;
  if (fitted > 0) std::frexp(fitted, &exponent);
  const int near = std::clamp(exponent + 128, 1, 251);  // above, the largest code would not be a finite float
  b.e = best_scale_byte(x, 32, near - 1, near + 1, mxfp4_scale);
  encode_table(x, 32, mxfp4_scale(b.e), TableCodes{kFp4DoubledValues}, b.qs);
}

void encode(const float* x, BlockNVFP4& b) {
  for (int g = 0; g < 4; ++g) {
    const float* group = x + 16 * g;
    const double fitted = std::fabs(fit_scale(group, 16, TableCodes{kFp4DoubledValues}));
    int near = 0;
    while (near < 126 && nvfp4_scale(near) < fitted) ++near;
    b.scales[g] = best_scale_byte(group, 16, std::max(near - 3, 0), std::min(near + 3, 126), nvfp4_scale);
    encode_table(group, 16, nvfp4_scale(b.scales[g]), TableCodes{kFp4DoubledValues}, b.qs + 8 * g);
  }
}

template <class Block>
void encode_row(const float* x, int64_t n, std::byte* blocks) {
  for (int64_t i = 0; i < n / Block::kElems; ++i) {
    Block block;
    encode(x + i * Block::kElems, block);
    std::memcpy(blocks + i * static_cast<int64_t>(sizeof(Block)), &block, sizeof(Block));
  }
}

void encode_f32(const float* x, int64_t n, std::byte* out) {
  if (n > 0) std::memcpy(out, x, static_cast<size_t>(n) * sizeof(float));
}

template <uint16_t (*narrow)(float)>
void encode_16bit(const float* x, int64_t n, std::byte* out) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t bits = narrow(x[i]);
    std::memcpy(out + 2 * i, &bits, sizeof bits);
  }
}

using RowEncoder = void (*)(const float* x, int64_t n, std::byte* blocks);

// Null: a format with grids.
RowEncoder row_encoder(DType type) {
  switch (type) {
    case DType::F32:
      return encode_f32;
    case DType::F16:
      return encode_16bit<float_to_half>;
    case DType::BF16:
      return encode_16bit<float_to_bf16>;
    case DType::Q4_0:
      return encode_row<BlockQ4_0>;
    case DType::Q4_1:
      return encode_row<BlockQ4_1>;
    case DType::Q5_0:
      return encode_row<BlockQ5_0>;
    case DType::Q5_1:
      return encode_row<BlockQ5_1>;
    case DType::Q8_0:
      return encode_row<BlockQ8_0>;
    case DType::Q2_0:
      return encode_row<BlockQ2_0>;
    case DType::Q2_K:
      return encode_row<BlockQ2_K>;
    case DType::Q3_K:
      return encode_row<BlockQ3_K>;
    case DType::Q4_K:
      return encode_row<BlockQ4_K>;
    case DType::Q5_K:
      return encode_row<BlockQ5_K>;
    case DType::Q6_K:
      return encode_row<BlockQ6_K>;
    case DType::IQ4_NL:
      return encode_row<BlockIQ4_NL>;
    case DType::IQ4_XS:
      return encode_row<BlockIQ4_XS>;
    case DType::MXFP4:
      return encode_row<BlockMXFP4>;
    case DType::NVFP4:
      return encode_row<BlockNVFP4>;
    default:
      return nullptr;
  }
}

}  // namespace

bool can_quantise(DType type) {
  return row_encoder(type) != nullptr;
}

void quantise_row(DType type, const float* x, int64_t n, std::byte* blocks) {
  const RowEncoder encode_blocks = row_encoder(type);
  CHECK(encode_blocks != nullptr, "type id {} cannot be quantised", static_cast<uint32_t>(type));
  CHECK(n >= 0 && n % traits(type).block_elems == 0, "{} elements are not whole blocks of {}", n, type_name(type));
  encode_blocks(x, n, blocks);
}

}  // namespace strata
