// The text of every variant of the kernels of mixers.h; part of kernels.inl, whose rules hold here as well.
#include "cpu/mixers.h"

namespace strata {
namespace {

STRATA_INLINE void add_fused(Lanes16& sum, const Lanes16& a, const Lanes16& b) {
  for (int i = 0; i < kParts; ++i) sum.part[i] = fma(a.part[i], b.part[i], sum.part[i]);
}

// --- values of the pages --------------------------------------------------------------------------------------------

template <bool kHalf>
STRATA_INLINE Vec load_values(const std::byte* row, int64_t at) {
  if constexpr (kHalf) {
    HalfVec halves;
    __builtin_memcpy(&halves, row + 2 * at, sizeof halves);
#if STRATA_LANES == 16
    return (Vec)_mm512_maskz_cvtph_ps(0xffff, (__m256i)halves);
#elif STRATA_LANES == 8
    return (Vec)_mm256_cvtph_ps((__m128i)halves);
#else
    return half_values(halves);
#endif
  } else {
    Vec v;
    __builtin_memcpy(&v, row + 4 * at, sizeof v);
    return v;
  }
}
// The first n < 16 values; the others are 0.
template <bool kHalf>
STRATA_INLINE void load_padded(const std::byte* row, int64_t at, int64_t n, Lanes16& v) {
  constexpr int64_t kBytes = kHalf ? 2 : 4;
  std::byte padded[16 * kBytes] = {};
  __builtin_memcpy(padded, row + kBytes * at, static_cast<size_t>(kBytes * n));
  for (int i = 0; i < kParts; ++i) v.part[i] = load_values<kHalf>(padded, i * kLanes);
}
template <bool kHalf>
STRATA_INLINE Lanes16 load_values16(const std::byte* row, int64_t at) {
  Lanes16 v;
  for (int i = 0; i < kParts; ++i) v.part[i] = load_values<kHalf>(row, at + i * kLanes);
  return v;
}

// Rows and heads of the inner blocks: what fits into the registers.
constexpr bool kWide = STRATA_LANES == 16;
constexpr int kTileHeads = kWide ? 4 : STRATA_LANES == 8 ? 2 : 1;
constexpr int tile_places(int heads) {
  return kWide ? 16 / heads : 2;
}

// --- attention ------------------------------------------------------------------------------------------------------

#if STRATA_LANES == 16
// Sixteen sums of 16 lanes at once, by the steps of fold_to_4 and fold_to_1, in their order.
template <int H, int N>
STRATA_INLINE Vec fold_sixteen(const Lanes16 (&sum)[H][N]) {
  Vec eight[8], four[4], two[2];
  for (int i = 0; i < 8; ++i) {  // of a pair: lanes i and i + 8
    const int first = i / 4 * 8 + i % 4, second = first + 4;
    const Vec a = sum[first / N][first % N].part[0], b = sum[second / N][second % N].part[0];
    eight[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
               __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  }
  for (int i = 0; i < 4; ++i) {  // lanes i and i + 4; a quarter for each head
    const Vec a = eight[i], b = eight[i + 4];
    four[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
              __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  }
  for (int i = 0; i < 2; ++i) {  // lanes i and i + 2
    const Vec a = four[2 * i], b = four[2 * i + 1];
    two[i] = __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
             __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  }
  return __builtin_shufflevector(two[0], two[1], 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30) +
         __builtin_shufflevector(two[0], two[1], 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
}
#endif

// out[h * stride + i] = factor * sum[h][i]
template <int H, int N>
STRATA_INLINE void fold_products(const Lanes16 (&sum)[H][N], float factor, float* out, int stride) {
#if STRATA_LANES == 16
  if constexpr (H * N == 16) {
    float all[16];
    store(all, fold_sixteen(sum) * splat(factor));
    for (int h = 0; h < H; ++h) __builtin_memcpy(out + h * stride, all + h * N, N * sizeof(float));
    return;
  }
#endif
  for (int h = 0; h < H; ++h) {
    if constexpr (N == 4) {
      const Vec4 four =
          factor * fold_four(sum[h][0], sum[h][1], sum[h][2], sum[h][3]);
      __builtin_memcpy(out + h * stride, &four, sizeof four);
    } else {
      for (int i = 0; i < N; ++i) out[h * stride + i] = factor * fold_to_1(fold_to_4(sum[h][i]));
    }
  }
}

// Products of H heads and N rows. Rows of a width that is no multiple of 16 are kRagged: their last values would drive
// the sums out of the registers.
template <bool kHalf, bool kRagged, int H, int N>
STRATA_INLINE void products(const std::byte* const* rows, const float* queries, int dim, Lanes16 (&sum)[H][N]) {
  for (int h = 0; h < H; ++h) {
    for (int i = 0; i < N; ++i) sum[h][i] = {};
  }
  int at = 0;
  for (; at + 16 <= dim; at += 16) {
    Lanes16 values[N];
    for (int i = 0; i < N; ++i) values[i] = load_values16<kHalf>(rows[i], at);
    for (int h = 0; h < H; ++h) {
      const Lanes16 query = load16(queries + h * dim + at);
      for (int i = 0; i < N; ++i) add_fused(sum[h][i], query, values[i]);
    }
  }
  if (kRagged && at < dim) {
    Lanes16 values[N];
    for (int i = 0; i < N; ++i) load_padded<kHalf>(rows[i], at, dim - at, values[i]);
    for (int h = 0; h < H; ++h) {
      const Lanes16 query = load16_part(queries + h * dim + at, dim - at);
      for (int i = 0; i < N; ++i) add_fused(sum[h][i], query, values[i]);
    }
  }
}

template <bool kHalf, bool kRagged, int H, int N>
STRATA_INLINE void scores_block(const KvTile& keys, int i, const float* queries, float scale, float* weights,
                                int stride) {
  Lanes16 sum[H][N];
  products<kHalf, kRagged>(keys.rows + i, queries, keys.dim, sum);
  fold_products(sum, scale, weights + i, stride);
}

template <bool kHalf, int H>
STRATA_INLINE void scores_of_heads(const KvTile& keys, const float* queries, float scale, float* weights, int stride) {
  constexpr int kPlaces = tile_places(H);
  int i = 0;
  for (; i + kPlaces <= keys.n; i += kPlaces)
    scores_block<kHalf, false, H, kPlaces>(keys, i, queries, scale, weights, stride);
  for (; i < keys.n; ++i) scores_block<kHalf, false, H, 1>(keys, i, queries, scale, weights, stride);
}

template <bool kHalf>
STRATA_INLINE void scores_of_tile(const KvTile& keys, const float* queries, int heads, float scale, float* weights,
                                  int stride) {
  int h = 0;
  if (keys.dim % 16 != 0) {
    for (; h < heads; ++h) {
      for (int i = 0; i < keys.n; ++i)
        scores_block<kHalf, true, 1, 1>(keys, i, queries + h * keys.dim, scale, weights + h * stride, stride);
    }
    return;
  }
  for (; kWide && h + 8 <= heads; h += 8)
    scores_of_heads<kHalf, 8>(keys, queries + h * keys.dim, scale, weights + h * stride, stride);
  for (; h + kTileHeads <= heads; h += kTileHeads)
    scores_of_heads<kHalf, kTileHeads>(keys, queries + h * keys.dim, scale, weights + h * stride, stride);
  if (kWide && h + 2 <= heads) {
    scores_of_heads<kHalf, 2>(keys, queries + h * keys.dim, scale, weights + h * stride, stride);
    h += 2;
  }
  for (; h < heads; ++h) scores_of_heads<kHalf, 1>(keys, queries + h * keys.dim, scale, weights + h * stride, stride);
}

void attend_scores(const KvTile& keys, const float* queries, int heads, float scale, float* weights, int stride) {
  if (keys.half) return scores_of_tile<true>(keys, queries, heads, scale, weights, stride);
  scores_of_tile<false>(keys, queries, heads, scale, weights, stride);
}

float softmax_tile(float* weights, int n, float* highest, float* total) {
  Vec most = splat(*highest);
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vec v = load(weights + i);
    most = v > most ? v : most;
  }
  float top = most[0];
  for (int lane = 1; lane < kLanes; ++lane) top = most[lane] > top ? most[lane] : top;
  for (; i < n; ++i) top = weights[i] > top ? weights[i] : top;
  Lanes16 sum = {};
  for (i = 0; i + 16 <= n; i += 16) {
    for (int p = 0; p < kParts; ++p) {
      const Vec e = exp_down(load(weights + i + p * kLanes) - splat(top));
      store(weights + i + p * kLanes, e);
      sum.part[p] += e;
    }
  }
  if (i < n) {
    float rest[16];  // what is beyond the end adds nothing
    for (int j = 0; j < 16; ++j) rest[j] = i + j < n ? weights[i + j] : -__builtin_inff();
    for (int p = 0; p < kParts; ++p) {
      const Vec e = exp_down(load(rest + p * kLanes) - splat(top));
      store(rest + p * kLanes, e);
      sum.part[p] += e;
    }
    __builtin_memcpy(weights + i, rest, static_cast<size_t>(n - i) * sizeof(float));
  }
  const float rescale = exp_down(splat(*highest - top))[0];
  *highest = top;
  *total = *total * rescale + fold_to_1(fold_to_4(sum));
  return rescale;
}

// out[h][at ..] for H heads and C vectors of columns.
template <bool kHalf, int H, int C>
STRATA_INLINE void values_block(const KvTile& values, const float* weights, int stride, const float* rescale, int at,
                                float* out) {
  Vec sum[H][C];
  for (int h = 0; h < H; ++h) {
    for (int c = 0; c < C; ++c) sum[h][c] = load(out + h * values.dim + at + c * kLanes) * splat(rescale[h]);
  }
  for (int i = 0; i < values.n; ++i) {
    Vec v[C];
    for (int c = 0; c < C; ++c) v[c] = load_values<kHalf>(values.rows[i], at + c * kLanes);
    for (int h = 0; h < H; ++h) {
      const Vec weight = splat(weights[h * stride + i]);
      for (int c = 0; c < C; ++c) sum[h][c] = fma(weight, v[c], sum[h][c]);
    }
  }
  for (int h = 0; h < H; ++h) {
    for (int c = 0; c < C; ++c) store(out + h * values.dim + at + c * kLanes, sum[h][c]);
  }
}

template <bool kHalf, int H>
STRATA_INLINE void values_of_heads(const KvTile& values, const float* weights, int stride, const float* rescale,
                                   float* out) {
  constexpr int kVectors = H > 8 ? 2 : 4;
  constexpr int kColumns = kVectors * kLanes;
  int at = 0;
  for (; at + kColumns <= values.dim; at += kColumns)
    values_block<kHalf, H, kVectors>(values, weights, stride, rescale, at, out);
  for (; at + kLanes <= values.dim; at += kLanes) values_block<kHalf, H, 1>(values, weights, stride, rescale, at, out);
  const int rest = values.dim - at;
  if (rest == 0) return;
  for (int h = 0; h < H; ++h) {
    float* to = out + h * values.dim + at;
    Vec sum = load_part(to, rest) * splat(rescale[h]);
    for (int i = 0; i < values.n; ++i) {
      Lanes16 v;
      load_padded<kHalf>(values.rows[i], at, rest, v);
      sum = fma(splat(weights[h * stride + i]), v.part[0], sum);
    }
    store_part(to, sum, rest);
  }
}

template <bool kHalf>
STRATA_INLINE void values_of_tile(const KvTile& values, const float* weights, int stride, const float* rescale,
                                  int heads, float* out) {
  int h = 0;
  for (; kWide && h + 12 <= heads; h += 12)
    values_of_heads<kHalf, 12>(values, weights + h * stride, stride, rescale + h, out + h * values.dim);
  for (; h + kTileHeads <= heads; h += kTileHeads)
    values_of_heads<kHalf, kTileHeads>(values, weights + h * stride, stride, rescale + h, out + h * values.dim);
  if (kWide && h + 2 <= heads) {
    values_of_heads<kHalf, 2>(values, weights + h * stride, stride, rescale + h, out + h * values.dim);
    h += 2;
  }
  if (h < heads) values_of_heads<kHalf, 1>(values, weights + h * stride, stride, rescale + h, out + h * values.dim);
}

void attend_values(const KvTile& values, const float* weights, int stride, const float* rescale, int heads,
                   float* out) {
  if (values.half) return values_of_tile<true>(values, weights, stride, rescale, heads, out);
  values_of_tile<false>(values, weights, stride, rescale, heads, out);
}

void finish_heads(float* out, int heads, int dim, const float* total, const float* gates) {
  for (int h = 0; h < heads; ++h) {
    const Vec share = splat(1.0f / total[h]);
    map(
        out + h * dim, gates + h * dim,
        dim, [=](Vec v, Vec g) __attribute__((always_inline)) { return v * share * sigmoid_of(g); });
  }
}

// --- block selection ------------------------------------------------------------------------------------------------

template <bool kRagged, int H, int N>
STRATA_INLINE void add_head_scores(const std::byte* const* rows, const float* queries, int dim, float (&score)[N]) {
  Lanes16 sum[H][N];
  products<false, kRagged>(rows, queries, dim, sum);
  float product[H][N];
  fold_products(sum, 1.0f, product[0], N);
  if constexpr (N == 4) {
    Vec4 total;
    __builtin_memcpy(&total, score, sizeof total);
    for (int h = 0; h < H; ++h) {
      Vec4 four;
      __builtin_memcpy(&four, product[h], sizeof four);
      total += four < Vec4{} ? Vec4{} : four;
    }
    __builtin_memcpy(score, &total, sizeof total);
  } else {
    for (int h = 0; h < H; ++h) {
      for (int i = 0; i < N; ++i) score[i] += product[h][i] < 0 ? 0.0f : product[h][i];
    }
  }
}

template <bool kRagged, int N>
STRATA_INLINE void scores_of_blocks(const float* keys, const float* queries, int heads, int dim, float* scores) {
  const std::byte* rows[N];
  for (int i = 0; i < N; ++i) rows[i] = reinterpret_cast<const std::byte*>(keys + i * dim);
  float score[N] = {};
  int h = 0;
  for (; !kRagged && h + kTileHeads <= heads; h += kTileHeads)
    add_head_scores<false, kTileHeads, N>(rows, queries + h * dim, dim, score);
  for (; h < heads; ++h) add_head_scores<kRagged, 1, N>(rows, queries + h * dim, dim, score);
  for (int i = 0; i < N; ++i) scores[i] = score[i] == score[i] ? score[i] : -__builtin_inff();
}

void block_scores(const float* keys, int n, const float* queries, int heads, int dim, float* scores) {
  int b = 0;
  constexpr int kBlocks = tile_places(kTileHeads);
  for (; dim % 16 == 0 && b + kBlocks <= n; b += kBlocks)
    scores_of_blocks<false, kBlocks>(keys + static_cast<int64_t>(b) * dim, queries, heads, dim, scores + b);
  for (; b < n; ++b) scores_of_blocks<true, 1>(keys + static_cast<int64_t>(b) * dim, queries, heads, dim, scores + b);
}

int count_at_least(const float* x, int n, float t) {
  const Vec least = splat(t);
  IntVec count[2] = {};
  int i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    count[0] -= load(x + i) >= least;
    count[1] -= load(x + i + kLanes) >= least;
  }
  count[0] += count[1];
  int total = 0;
  for (int lane = 0; lane < kLanes; ++lane) total += count[0][lane];
  for (; i < n; ++i) total += x[i] >= t ? 1 : 0;
  return total;
}

// Is any lane set?
STRATA_INLINE bool any(IntVec v) {
#if STRATA_LANES == 16
  return _mm512_test_epi32_mask((__m512i)v, (__m512i)v) != 0;
#elif STRATA_LANES == 8
  return _mm256_testz_si256((__m256i)v, (__m256i)v) == 0;
#else
  return (v[0] | v[1] | v[2] | v[3]) != 0;
#endif
}

int find_between(const float* x, int n, float low, float high, int32_t* indices) {
  const Vec least = splat(low), end = splat(high);
  int found = 0, i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vec v = load(x + i);
    if (!any((v >= least) & ~(v >= end))) continue;
    for (int lane = i; lane < i + kLanes; ++lane) {  // without branches: what does not belong is written over
      indices[found] = lane;
      found += x[lane] >= low && !(x[lane] >= high) ? 1 : 0;
    }
  }
  for (; i < n; ++i) {
    indices[found] = i;
    found += x[i] >= low && !(x[i] >= high) ? 1 : 0;
  }
  return found;
}

// --- delta rule -----------------------------------------------------------------------------------------------------

// C vectors of columns from `at` on. kFactors: 0, 1, or 2 for any number.
template <int C, int kFactors, bool kKeep, bool kRead>
STRATA_INLINE void delta_columns(const DeltaPass& p, int at) {
  Vec by_key[C] = {}, by_query[C] = {}, update[C] = {};
  if constexpr (kFactors == 1) {
    for (int c = 0; c < C; ++c) update[c] = load(p.factors[0].update + at + c * kLanes);
  }
  const float* from = p.from + at;
  float* to = kKeep ? p.to + at : nullptr;
  for (int i = 0; i < p.k_dim; ++i) {
    Vec z[C];
    for (int c = 0; c < C; ++c) z[c] = load(from + c * kLanes);
    if constexpr (kFactors == 1) {
      const Vec decay = splat(p.factors[0].decay), key = splat(p.factors[0].key[i]);
      for (int c = 0; c < C; ++c) z[c] = fma(key, update[c], decay * z[c]);
    } else if constexpr (kFactors == 2) {
      for (int f = 0; f < p.n_factors; ++f) {
        const DeltaFactor& factor = p.factors[f];
        const Vec decay = splat(factor.decay), key = splat(factor.key[i]);
        for (int c = 0; c < C; ++c) z[c] = fma(key, load(factor.update + at + c * kLanes), decay * z[c]);
      }
    }
    if constexpr (kKeep) {
      for (int c = 0; c < C; ++c) store(to + c * kLanes, z[c]);
      to += p.to_stride;
    }
    if constexpr (kRead) {
      const Vec key = splat(p.key[i]), query = splat(p.query[i]);
      for (int c = 0; c < C; ++c) by_key[c] = fma(key, z[c], by_key[c]);
      for (int c = 0; c < C; ++c) by_query[c] = fma(query, z[c], by_query[c]);
    }
    from += p.from_stride;
  }
  if constexpr (kRead) {
    const Vec decay = splat(p.decay), beta = splat(p.beta), query_key = splat(p.query_key);
    for (int c = 0; c < C; ++c) {
      const int64_t column = at + c * kLanes;
      const Vec next = beta * (load(p.value + column) - decay * by_key[c]);
      store(p.update + column, next);
      store(p.out + column, decay * by_query[c] + query_key * next);
    }
  }
}

template <int kFactors, bool kKeep, bool kRead>
STRATA_INLINE void delta_strip(const DeltaPass& p) {
  constexpr int kVectors = STRATA_LANES == 16 ? 4 : 2;
  for (int at = 0; at < kDeltaStrip; at += kVectors * kLanes) delta_columns<kVectors, kFactors, kKeep, kRead>(p, at);
}

template <bool kKeep, bool kRead>
STRATA_INLINE void delta_factors(const DeltaPass& p) {
  if (p.n_factors == 0) return delta_strip<0, kKeep, kRead>(p);
  if (p.n_factors == 1) return delta_strip<1, kKeep, kRead>(p);
  delta_strip<2, kKeep, kRead>(p);
}

void delta_pass(const DeltaPass& p) {
  if (p.to == nullptr) return p.key != nullptr ? delta_factors<false, true>(p) : void();
  if (p.key != nullptr) return delta_factors<true, true>(p);
  delta_factors<true, false>(p);
}

// --- convolution ----------------------------------------------------------------------------------------------------

// Weights [16 channels, 4 taps] to one vector a tap.
STRATA_INLINE void turn_taps(const float* weights, Lanes16 (&taps)[4]) {
#if STRATA_LANES == 16
  Vec low[2], high[2];  // taps 0 and 1, taps 2 and 3, each of eight channels
  for (int i = 0; i < 2; ++i) {
    const Vec a = load(weights + 32 * i), b = load(weights + 32 * i + 16);
    low[i] = __builtin_shufflevector(a, b, 0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
    high[i] = __builtin_shufflevector(a, b, 2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31);
  }
  for (int j = 0; j < 4; j += 2) {
    const Vec a = j == 0 ? low[0] : high[0], b = j == 0 ? low[1] : high[1];
    taps[j].part[0] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
    taps[j + 1].part[0] = __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  }
#else
  float turned[4][16];
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 4; ++j) turned[j][i] = weights[4 * i + j];
  }
  for (int j = 0; j < 4; ++j) taps[j] = load16(turned[j]);
#endif
}

STRATA_INLINE void silu_lanes(Lanes16& v) {
  for (int i = 0; i < kParts; ++i) v.part[i] *= sigmoid_of(v.part[i]);
}

STRATA_INLINE const float* conv_row(const ConvPass& p, int r) {
  return (r >= 0 ? p.inputs + r * p.input_stride : p.past_end + r * p.past_stride) + p.first;
}

// The same sums, for any number of taps and up to 16 channels.
STRATA_INLINE void conv_channels(const ConvPass& p, int first, int count, int row, float* out) {
  float sum[16] = {};
  for (int j = 0; j < p.taps; ++j) {
    const float* input = conv_row(p, row - (p.taps - 1 - j) * p.dilation) + first;
    for (int i = 0; i < count; ++i)
      sum[i] += p.weights[static_cast<int64_t>(p.first + first + i) * p.taps + j] * input[i];
  }
  Lanes16 v = load16(sum);
  silu_lanes(v);
  for (int i = 0; i < kParts; ++i) store(sum + i * kLanes, v.part[i]);
  __builtin_memcpy(out + first, sum, static_cast<size_t>(count) * sizeof(float));
}

// G groups of 16 channels, row by row.
template <int G>
STRATA_INLINE void conv_groups(const ConvPass& p, int first, float* out, int64_t out_stride) {
  constexpr int kRowsAhead = 4;
  Lanes16 taps[G][4];
  for (int g = 0; g < G; ++g) turn_taps(p.weights + static_cast<int64_t>(p.first + first + 16 * g) * 4, taps[g]);
  for (int r = 0; r < p.n_rows; ++r) {
    const float* inputs[4];
    for (int j = 0; j < 4; ++j) inputs[j] = conv_row(p, p.first_row + r - (3 - j) * p.dilation) + first;
    float* to = out + r * out_stride + first;
    const float* ahead = inputs[3] + kRowsAhead * p.input_stride;  // rows are far apart
    for (int g = 0; g < G; ++g) {
      __builtin_prefetch(ahead + 16 * g);
      Lanes16 sum = {};
      for (int j = 0; j < 4; ++j) add_product(sum, taps[g][j], load16(inputs[j] + 16 * g));
      silu_lanes(sum);
      for (int i = 0; i < kParts; ++i) store(to + 16 * g + i * kLanes, sum.part[i]);
    }
  }
}

void conv_silu(const ConvPass& p, float* out, int64_t out_stride) {
  int first = 0;
  for (; p.taps == 4 && first + 64 <= p.count; first += 64) conv_groups<4>(p, first, out, out_stride);
  for (; p.taps == 4 && first + 16 <= p.count; first += 16) conv_groups<1>(p, first, out, out_stride);
  for (; first < p.count; first += 16) {
    const int count = p.count - first < 16 ? p.count - first : 16;
    for (int r = 0; r < p.n_rows; ++r) conv_channels(p, first, count, p.first_row + r, out + r * out_stride);
  }
}

// --- streams --------------------------------------------------------------------------------------------------------

void write_and_norm(float* x, const float* y, float gain, const float* norm, int n, float eps, float* out) {
  Lanes16 sum = {};
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    Lanes16 v = load16(x + i);
    if (y != nullptr) {
      const Lanes16 added = load16(y + i);
      for (int p = 0; p < kParts; ++p) {
        v.part[p] += splat(gain) * added.part[p];
        store(x + i + p * kLanes, v.part[p]);
      }
    }
    add_product(sum, v, v);
  }
  if (i < n) {
    if (y != nullptr) {
      for (int j = i; j < n; ++j) x[j] += gain * y[j];
    }
    const Lanes16 v = load16_part(x + i, n - i);
    add_product(sum, v, v);
  }
  const float factor = 1.0f / __builtin_sqrtf(fold_to_1(fold_to_4(sum)) / static_cast<float>(n) + eps);
  for (i = 0; i + kLanes <= n; i += kLanes) store(out + i, load(x + i) * splat(factor) * load(norm + i));
  for (; i < n; ++i) out[i] = x[i] * factor * norm[i];
}

constexpr MixerKernels kMixerKernels = {
    attend_scores,  softmax_tile, attend_values, finish_heads, block_scores,
    count_at_least, find_between, delta_pass,    conv_silu,    write_and_norm,
};

}  // namespace
}  // namespace strata
