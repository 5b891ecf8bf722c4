// The text of every variant of the kernels. An including file defines STRATA_LANES (floats in a register: 4, 8 or 16),
// STRATA_TILE_X and STRATA_TILE_W (rows and weights of the inner block of dot_tile) and STRATA_ISA (the name), and is
// compiled with the matching instruction set. Nothing here may call an inline function with external linkage: the
// linker could give that copy, with its instructions, to other code.

namespace strata {
namespace {

constexpr int kLanes = STRATA_LANES;
typedef float Vec __attribute__((vector_size(4 * kLanes)));
typedef int32_t IntVec __attribute__((vector_size(4 * kLanes)));
typedef uint32_t UintVec __attribute__((vector_size(4 * kLanes)));
typedef uint16_t HalfVec __attribute__((vector_size(2 * kLanes)));
typedef float Vec4 __attribute__((vector_size(16)));

STRATA_INLINE Vec load(const float* from) {
  Vec v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
STRATA_INLINE void store(float* to, Vec v) {
  __builtin_memcpy(to, &v, sizeof v);
}
// The first n < kLanes values; the others are 0.
STRATA_INLINE Vec load_part(const float* from, int64_t n) {
  Vec v = {};
  __builtin_memcpy(&v, from, static_cast<size_t>(n) * sizeof(float));
  return v;
}
STRATA_INLINE void store_part(float* to, Vec v, int64_t n) {
  __builtin_memcpy(to, &v, static_cast<size_t>(n) * sizeof(float));
}
STRATA_INLINE Vec splat(float x) {
  return x - Vec{};
}

// --- 16 lanes, in one, two or four registers ------------------------------------------------------------------------

constexpr int kParts = 16 / kLanes;
struct Lanes16 {
  Vec part[kParts];
};

STRATA_INLINE Lanes16 load16(const float* from) {
  Lanes16 v;
  for (int i = 0; i < kParts; ++i) v.part[i] = load(from + i * kLanes);
  return v;
}
STRATA_INLINE Lanes16 load16_part(const float* from, int64_t n) {
  float padded[16] = {};
  __builtin_memcpy(padded, from, static_cast<size_t>(n) * sizeof(float));
  return load16(padded);
}
STRATA_INLINE void store16(float* to, const Lanes16& v) {
  for (int i = 0; i < kParts; ++i) store(to + i * kLanes, v.part[i]);
}
STRATA_INLINE void add_product(Lanes16& sum, const Lanes16& a, const Lanes16& b) {
  for (int i = 0; i < kParts; ++i) sum.part[i] += a.part[i] * b.part[i];
}
STRATA_INLINE void add(Lanes16& sum, const Lanes16& a) {
  for (int i = 0; i < kParts; ++i) sum.part[i] += a.part[i];
}

}  // namespace
}  // namespace strata

#include "cpu/fma.inl"

namespace strata {
namespace {

// Lane i plus lane i + 8, then i + 4: what is left of a sum is four lanes.
STRATA_INLINE Vec4 fold_to_4(const Lanes16& v) {
#if STRATA_LANES == 16
  const Vec a = v.part[0];
  const auto b = __builtin_shufflevector(a, a, 0, 1, 2, 3, 4, 5, 6, 7) +
                 __builtin_shufflevector(a, a, 8, 9, 10, 11, 12, 13, 14, 15);
  return __builtin_shufflevector(b, b, 0, 1, 2, 3) + __builtin_shufflevector(b, b, 4, 5, 6, 7);
#elif STRATA_LANES == 8
  const Vec b = v.part[0] + v.part[1];
  return __builtin_shufflevector(b, b, 0, 1, 2, 3) + __builtin_shufflevector(b, b, 4, 5, 6, 7);
#else
  return (v.part[0] + v.part[2]) + (v.part[1] + v.part[3]);
#endif
}
// The last two steps: lane i plus lane i + 2, then i + 1.
STRATA_INLINE float fold_to_1(Vec4 v) {
  return (v[0] + v[2]) + (v[1] + v[3]);
}
// The same for four sums at once.
STRATA_INLINE Vec4 fold_four(const Lanes16& a, const Lanes16& b, const Lanes16& c, const Lanes16& d) {
#if STRATA_LANES == 16
  const auto halves = [](Vec u, Vec v) __attribute__((always_inline)) {
    return _mm512_add_ps(_mm512_shuffle_f32x4((__m512)u, (__m512)v, 0x44), _mm512_shuffle_f32x4((__m512)u, (__m512)v, 0xee));
  };
  const __m512 ab = halves(a.part[0], b.part[0]), cd = halves(c.part[0], d.part[0]);
  const __m512 quarters = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
  const __m512 two = _mm512_add_ps(quarters, _mm512_permute_ps(quarters, 0x4e));
  const __m512 one = _mm512_add_ps(two, _mm512_permute_ps(two, 0xb1));
  const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  return (Vec4)_mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, one));
#else
  const Vec4 a4 = fold_to_4(a), b4 = fold_to_4(b), c4 = fold_to_4(c), d4 = fold_to_4(d);
  const Vec4 ab_low = __builtin_shufflevector(a4, b4, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a4, b4, 2, 6, 3, 7);
  const Vec4 cd_low = __builtin_shufflevector(c4, d4, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c4, d4, 2, 6, 3, 7);
  const Vec4 ab = ab_low + ab_high, cd = cd_low + cd_high;  // a0+a2, b0+b2, a1+a3, b1+b3
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
#endif
}

STRATA_INLINE float sum_of_squares(const float* x, int n) {
  Lanes16 sum = {};
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    const Lanes16 v = load16(x + i);
    add_product(sum, v, v);
  }
  if (i < n) {
    const Lanes16 v = load16_part(x + i, n - i);
    add_product(sum, v, v);
  }
  return fold_to_1(fold_to_4(sum));
}

// --- fp16 -----------------------------------------------------------------------------------------------------------

// As half_to_float of quant/half.h, a register at a time.
STRATA_INLINE Vec half_values(HalfVec halves) {
  const UintVec bits = __builtin_convertvector(halves, UintVec);
  const UintVec sign = (bits & 0x8000u) << 16;
  const UintVec magnitude = bits & 0x7fffu;
  const UintVec zero = {};
  const UintVec rebias = magnitude >= zero + 0x7c00u ? zero + (224u << 23) : zero + (112u << 23);
  const UintVec normal = (magnitude << 13) + rebias;
  const Vec subnormal = (Vec)(0x3f000000u | (magnitude & 0x3ffu)) - splat(0.5f);
  const UintVec value = magnitude < zero + 0x400u ? (UintVec)subnormal : normal;
  return (Vec)(sign | value);
}

// --- scales of activations ------------------------------------------------------------------------------------------

// From the bits of the largest magnitude. A group that is not finite gets a scale that is not a number; one that is too
// small to invert is zero.
STRATA_INLINE void scale_of_group(int32_t highest_bits, float* scale, float* inverse) {
  float highest;
  __builtin_memcpy(&highest, &highest_bits, sizeof highest);
  if (highest_bits >= 0x7f800000) {
    *scale = __builtin_nanf("");
    *inverse = 0;
  } else if (highest < 1e-34f) {
    *scale = 0;
    *inverse = 0;
  } else {
    *scale = highest / 127.0f;
    *inverse = 127.0f / highest;
  }
}

// --- products -------------------------------------------------------------------------------------------------------

// Weights in sixteen bits, by what the bits mean.
struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};
STRATA_INLINE HalfVec load_bits(const void* from) {
  HalfVec v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
STRATA_INLINE Lanes16 weights16(const float* from) {
  return load16(from);
}
STRATA_INLINE Lanes16 weights16(const Half* from) {
  Lanes16 v;
  for (int i = 0; i < kParts; ++i) v.part[i] = half_values(load_bits(from + i * kLanes));
  return v;
}
STRATA_INLINE Lanes16 weights16(const Brain* from) {
  Lanes16 v;
  for (int i = 0; i < kParts; ++i) {
    v.part[i] = (Vec)(__builtin_convertvector(load_bits(from + i * kLanes), UintVec) << 16);
  }
  return v;
}
template <class T>
STRATA_INLINE Lanes16 weights16_part(const T* from, int64_t n) {
  T padded[16] = {};
  __builtin_memcpy(padded, from, static_cast<size_t>(n) * sizeof(T));
  return weights16(padded);
}

// sum += a * b, with one rounding where the instruction set has that.
STRATA_INLINE void fuse_product(Lanes16& sum, const Lanes16& a, const Lanes16& b) {
#if STRATA_LANES == 16
  sum.part[0] = (Vec)_mm512_fmadd_ps((__m512)a.part[0], (__m512)b.part[0], (__m512)sum.part[0]);
#elif STRATA_LANES == 8
  for (int i = 0; i < kParts; ++i) {
    sum.part[i] = (Vec)_mm256_fmadd_ps((__m256)a.part[i], (__m256)b.part[i], (__m256)sum.part[i]);
  }
#else
  add_product(sum, a, b);
#endif
}

// X rows times W weights; the sum of each pair takes the same steps in every block shape.
// sum += products of inputs [from, to), a multiple of 16 long unless it is the last stretch.
template <class T, int X, int W>
STRATA_INLINE void add_products(const T* w, int64_t w_stride, const float* const* x, int64_t from, int64_t to,
                                Lanes16 (*sum)[W]) {
  int64_t i = from;
  for (; i + 16 <= to; i += 16) {
    Lanes16 weights[W];
    for (int j = 0; j < W; ++j) weights[j] = weights16(w + j * w_stride + i);
    for (int r = 0; r < X; ++r) {
      const Lanes16 values = load16(x[r] + i);
      for (int j = 0; j < W; ++j) fuse_product(sum[r][j], values, weights[j]);
    }
  }
  if (i < to) {
    Lanes16 weights[W];
    for (int j = 0; j < W; ++j) weights[j] = weights16_part(w + j * w_stride + i, to - i);
    for (int r = 0; r < X; ++r) {
      const Lanes16 values = load16_part(x[r] + i, to - i);
      for (int j = 0; j < W; ++j) fuse_product(sum[r][j], values, weights[j]);
    }
  }
}

// out[j] = the sum of sums[j]
STRATA_INLINE void fold_sums(const Lanes16* sums, int n, float* out) {
  int j = 0;
  for (; j + 4 <= n; j += 4) {
    const Vec4 four = fold_four(sums[j], sums[j + 1], sums[j + 2], sums[j + 3]);
    __builtin_memcpy(out + j, &four, sizeof four);
  }
  for (; j < n; ++j) out[j] = fold_to_1(fold_to_4(sums[j]));
}

template <class T, int X, int W>
STRATA_INLINE void dot_block(const T* w, int64_t w_stride, const float* const* x, int64_t n, float* out,
                             int64_t out_stride) {
  Lanes16 sum[X][W] = {};
  add_products<T, X, W>(w, w_stride, x, 0, n, sum);
  for (int r = 0; r < X; ++r) fold_sums(sum[r], W, out + r * out_stride);
}

// Many rows of long inputs go through in stretches: weights of a stretch become float32 once, and stay with its rows in
// the nearest cache; the sums wait in memory meanwhile. Every sum takes the steps of dot_block.
constexpr int kStretch = 512, kStretchX = 8 * STRATA_TILE_X, kStretchW = 2 * STRATA_TILE_W;
template <class T>
STRATA_INLINE void widen(const T* w, int64_t w_stride, int64_t n, float (*to)[kStretch]) {
  for (int j = 0; j < kStretchW; ++j, w += w_stride) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) store16(to[j] + i, weights16(w + i));
    if (i < n) store16(to[j] + i, weights16_part(w + i, n - i));
  }
}
template <class T>
STRATA_INLINE void dot_in_stretches(const T* w, int64_t w_stride, const float* const* x, int64_t n, float* out,
                                    int64_t out_stride) {
  alignas(64) float weights[kStretchW][kStretch];
  Lanes16 sums[kStretchX][kStretchW] = {};
  for (int64_t from = 0; from < n; from += kStretch) {
    const int64_t count = n - from < kStretch ? n - from : kStretch;
    widen(w + from, w_stride, count, weights);
    for (int r0 = 0; r0 < kStretchX; r0 += STRATA_TILE_X) {
      const float* rows[STRATA_TILE_X];
      for (int r = 0; r < STRATA_TILE_X; ++r) rows[r] = x[r0 + r] + from;
      for (int j0 = 0; j0 < kStretchW; j0 += STRATA_TILE_W) {
        Lanes16 sum[STRATA_TILE_X][STRATA_TILE_W];
        for (int r = 0; r < STRATA_TILE_X; ++r) {
          for (int j = 0; j < STRATA_TILE_W; ++j) sum[r][j] = sums[r0 + r][j0 + j];
        }
        add_products<float, STRATA_TILE_X, STRATA_TILE_W>(weights[j0], kStretch, rows, 0, count, sum);
        for (int r = 0; r < STRATA_TILE_X; ++r) {
          for (int j = 0; j < STRATA_TILE_W; ++j) sums[r0 + r][j0 + j] = sum[r][j];
        }
      }
    }
  }
  for (int r = 0; r < kStretchX; ++r) fold_sums(sums[r], kStretchW, out + r * out_stride);
}

template <class T, int X>
STRATA_INLINE void dot_tile_rows(const T* w, int64_t w_stride, int n_w, const float* const* x, int64_t n, float* out,
                                 int64_t out_stride) {
  int j = 0;
  for (; j + STRATA_TILE_W <= n_w; j += STRATA_TILE_W)
    dot_block<T, X, STRATA_TILE_W>(w + j * w_stride, w_stride, x, n, out + j, out_stride);
  for (; j < n_w; ++j) dot_block<T, X, 1>(w + j * w_stride, w_stride, x, n, out + j, out_stride);
}

template <class T>
STRATA_INLINE void dot_tile_of(const T* w, int64_t w_stride, int n_w, const float* const* x, int n_x, int64_t n,
                               float* out, int64_t out_stride) {
  int r = 0;
  if (n >= 2 * kStretch) {
    for (; r + kStretchX <= n_x; r += kStretchX) {
      int j = 0;
      float* to = out + r * out_stride;
      for (; j + kStretchW <= n_w; j += kStretchW)
        dot_in_stretches(w + j * w_stride, w_stride, x + r, n, to + j, out_stride);
      for (int i = 0; i < kStretchX; i += STRATA_TILE_X)
        dot_tile_rows<T, STRATA_TILE_X>(w + j * w_stride, w_stride, n_w - j, x + r + i, n, to + j + i * out_stride,
                                        out_stride);
    }
  }
  for (; r + STRATA_TILE_X <= n_x; r += STRATA_TILE_X) {
    dot_tile_rows<T, STRATA_TILE_X>(w, w_stride, n_w, x + r, n, out + r * out_stride, out_stride);
  }
  for (; r < n_x; ++r) dot_tile_rows<T, 1>(w, w_stride, n_w, x + r, n, out + r * out_stride, out_stride);
}

void dot_tile(const float* w, int64_t w_stride, int n_w, const float* const* x, int n_x, int64_t n, float* out,
              int64_t out_stride) {
  dot_tile_of(w, w_stride, n_w, x, n_x, n, out, out_stride);
}
void dot_tile_f16(const uint16_t* w, int64_t w_stride, int n_w, const float* const* x, int n_x, int64_t n, float* out,
                  int64_t out_stride) {
  dot_tile_of(reinterpret_cast<const Half*>(w), w_stride, n_w, x, n_x, n, out, out_stride);
}
void dot_tile_bf16(const uint16_t* w, int64_t w_stride, int n_w, const float* const* x, int n_x, int64_t n, float* out,
                   int64_t out_stride) {
  dot_tile_of(reinterpret_cast<const Brain*>(w), w_stride, n_w, x, n_x, n, out, out_stride);
}

// --- elementwise ----------------------------------------------------------------------------------------------------

// 2^n * e^r = e^x: n in the low bits of the first result, and the series of e^r up to r^7, |r| <= ln(2)/2.
struct ExpParts {
  Vec n_bits, n, series;
};
STRATA_INLINE ExpParts exp_parts(Vec x) {
  const Vec shift = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to a whole number in the low bits
  const Vec n_bits = fma(x, splat(1.44269504f), shift);
  const Vec n = n_bits - shift;
  const Vec r = fma(n, splat(-1.42860677e-6f), fma(n, splat(-0.693145752f), x));
  Vec p = splat(1.0f / 5040);
  p = fma(p, r, splat(1.0f / 720));
  p = fma(p, r, splat(1.0f / 120));
  p = fma(p, r, splat(1.0f / 24));
  p = fma(p, r, splat(1.0f / 6));
  p = fma(p, r, splat(0.5f));
  p = fma(p, r, splat(1.0f));
  return {n_bits, n, fma(p, r, splat(1.0f))};
}

// e^x to within 2 units of the last place. Below 2^-126 it is 0.
STRATA_INLINE Vec exp_of(Vec x) {
  const Vec highest = splat(88.72284f), lowest = splat(-87.33654f), infinity = splat(__builtin_inff());
  const ExpParts e = exp_parts(x > highest ? highest : x < lowest ? lowest : x);
  // Two factors, because 2^128 is not a number: half of n each.
  const IntVec whole = __builtin_convertvector(e.n, IntVec);
  const IntVec half = whole >> 1;
  const Vec first = (Vec)((half + 127) << 23), second = (Vec)((whole - half + 127) << 23);
  Vec result = e.series * first * second;
  result = x < lowest ? Vec{} : result;
  result = x > highest ? infinity : result;
  return x == x ? result : x;
}

// The same for x that is not above 0; what is not a number stays so.
STRATA_INLINE Vec exp_down(Vec x) {
  const Vec lowest = splat(-87.33654f);
  const ExpParts e = exp_parts(x < lowest ? lowest : x);
  const Vec power = (Vec)(((IntVec)e.n_bits << 23) + (127 << 23));
  return x < lowest ? Vec{} : e.series * power;
}

// 1 / (1 + e^-x), from e^-|x|, which never overflows.
STRATA_INLINE Vec sigmoid_of(Vec x) {
  const Vec one = splat(1.0f);
  const Vec e = exp_down(x < Vec{} ? x : -x);
  return (x < Vec{} ? e : one) / (one + e);
}

// x[i] = f(x[i], i-th vector of others...) for n values.
template <class F>
STRATA_INLINE void map(float* x, int n, F f) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) store(x + i, f(load(x + i)));
  if (i < n) store_part(x + i, f(load_part(x + i, n - i)), n - i);
}
template <class F>
STRATA_INLINE void map(float* x, const float* y, int n, F f) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) store(x + i, f(load(x + i), load(y + i)));
  if (i < n) store_part(x + i, f(load_part(x + i, n - i), load_part(y + i, n - i)), n - i);
}

void rms_norm(const float* x, const float* weight, int n, float eps, float* out) {
  const float factor = 1.0f / __builtin_sqrtf(sum_of_squares(x, n) / static_cast<float>(n) + eps);
  for (int i = 0; i < n; ++i) out[i] = x[i] * factor * weight[i];
}

void unit_norm(float* x, int n, float eps, float scale) {
  const float factor = scale / __builtin_sqrtf(sum_of_squares(x, n) + eps);
  for (int i = 0; i < n; ++i) x[i] *= factor;
}

void add_scaled(float* y, const float* x, float a, int n) {
  for (int i = 0; i < n; ++i) y[i] += a * x[i];
}

float exp_sum(float* x, float shift, int n) {
  const Vec by = splat(shift);
  map(
      x, n, [=](Vec v) __attribute__((always_inline)) { return exp_of(v - by); });
  Lanes16 sum = {};
  int i = 0;
  for (; i + 16 <= n; i += 16) add(sum, load16(x + i));
  if (i < n) add(sum, load16_part(x + i, n - i));
  return fold_to_1(fold_to_4(sum));
}

void silu(float* x, float scale, int n) {
  const Vec factor = splat(scale);
  map(
      x, n, [=](Vec v) __attribute__((always_inline)) { return v * factor * sigmoid_of(v * factor); });
}

void silu_times(float* x, const float* y, int n) {
  map(
      x, y, n, [](Vec v, Vec w) __attribute__((always_inline)) { return v * sigmoid_of(v) * w; });
}

void gate(float* x, const float* by, int n) {
  map(
      x, by, n, [](Vec v, Vec g) __attribute__((always_inline)) { return v * sigmoid_of(g); });
}

void sigmoid(float* x, float in_scale, float scale, int n) {
  const Vec inner = splat(in_scale), outer = splat(scale);
  map(
      x, n, [=](Vec v) __attribute__((always_inline)) { return outer * sigmoid_of(v * inner); });
}

void add_gated(float* y, const float* m, const float* x, int n) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, load(y + i) + sigmoid_of(load(m + i)) * load(x + i));
  if (i < n) {
    const int64_t rest = n - i;
    store_part(y + i, load_part(y + i, rest) + sigmoid_of(load_part(m + i, rest)) * load_part(x + i, rest), rest);
  }
}

}  // namespace
}  // namespace strata
