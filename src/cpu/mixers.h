// The inner loops of what is no weight matrix: attention, block scores, delta rule, convolution, writing and norming
// the streams. Compiled once per instruction set from mixers.inl. Sums over many terms run in 16 lanes or in one fixed
// order, so sets with fused products give the same bits; the generic one rounds a product before it is added.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

// Columns of a delta-rule state that are worked on at once.
inline constexpr int kDeltaStrip = 64;
constexpr int whole_strips(int columns) {
  return (columns + kDeltaStrip - 1) / kDeltaStrip * kDeltaStrip;
}

// Some positions of one key head, in the format of the pages: position i has `dim` values at rows[i].
struct KvTile {
  const std::byte* const* rows = nullptr;
  int n = 0, dim = 0;
  bool half = false;  // fp16, otherwise float32
};

// What a row adds to a delta-rule state: Z = fma(key, update, decay * Z).
struct DeltaFactor {
  float decay = 0;
  const float* key = nullptr;     // [k_dim]
  const float* update = nullptr;  // [kDeltaStrip]
};

// One pass over a strip of a state: applies the factors in order, keeps the result Z, and computes the next factor's
// update = beta * (value - decay * key Z) and what a query finds once that is applied, which is
// decay * query Z + (query . key) * update. All arrays of columns are [kDeltaStrip].
struct DeltaPass {
  int k_dim = 0;
  const float* from = nullptr;  // [k_dim, kDeltaStrip], rows from_stride apart
  int64_t from_stride = 0;
  float* to = nullptr;  // likewise, may be `from`; null: the result is not kept
  int64_t to_stride = 0;
  const DeltaFactor* factors = nullptr;
  int n_factors = 0;

  const float* key = nullptr;  // null: no more than this
  const float* query = nullptr;
  float query_key = 0;  // query . key
  float decay = 0, beta = 0;
  const float* value = nullptr;
  float* update = nullptr;
  float* out = nullptr;
};

// A causal convolution over channels [first, first + count) of rows [first_row, first_row + n_rows). Tap j of row r
// reads row r - (taps - 1 - j) * dilation; rows below 0 are remembered.
struct ConvPass {
  const float* past_end = nullptr;  // where the remembered rows end, past_stride apart
  int64_t past_stride = 0;
  const float* inputs = nullptr;
  int64_t input_stride = 0;
  const float* weights = nullptr;  // [channels, taps]
  int taps = 0, dilation = 0;
  int first = 0, count = 0;
  int first_row = 0, n_rows = 0;
};

struct MixerKernels {
  // weights[h * stride + i] = scale * (queries[h] . row i), for heads side by side in `queries`.
  void (*attend_scores)(const KvTile& keys, const float* queries, int heads, float scale, float* weights, int stride);
  // One tile of a running softmax. Weights become e^(weight - highest); the highest and the total of all tiles so far
  // are kept up to date. Returns the factor of what was summed before.
  float (*softmax_tile)(float* weights, int n, float* highest, float* total);
  // out[h] = rescale[h] * out[h] + sum over i of weights[h * stride + i] * row i, out [heads, dim]
  void (*attend_values)(const KvTile& values, const float* weights, int stride, const float* rescale, int heads,
                        float* out);
  // out[h] = out[h] / total[h] * sigmoid(gates[h]), out and gates [heads, dim]
  void (*finish_heads)(float* out, int heads, int dim, const float* total, const float* gates);
  // scores[b] = sum over heads of max(0, query . key b), for n keys side by side; what is not a number becomes -inf.
  void (*block_scores)(const float* keys, int n, const float* queries, int heads, int dim, float* scores);
  // How many values are at least t.
  int (*count_at_least)(const float* x, int n, float t);
  // Indices of values that are at least `low` and not at least `high`, ascending; returns how many. Room for n + 1.
  int (*find_between)(const float* x, int n, float low, float high, int32_t* indices);
  void (*delta_pass)(const DeltaPass& pass);
  // out[r][i] = silu( sum over j of weights[first + i][j] * tap j of channel first + i ), rows out_stride apart
  void (*conv_silu)(const ConvPass& pass, float* out, int64_t out_stride);
  // x += gain * y, then out = x / sqrt(mean(x^2) + eps) * norm; y null: only the norm.
  void (*write_and_norm)(float* x, const float* y, float gain, const float* norm, int n, float eps, float* out);
};

}  // namespace strata
