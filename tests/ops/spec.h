// The formulas of the model once more, in double and token by token, written apart from the plain twin: whole histories
// are kept and looked at from the current token, nothing is cached, committed or grouped.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/fixtures.h"
#include "quant/half.h"

namespace strata::test {

inline double spec_sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
inline double spec_silu(double x) {
  return x * spec_sigmoid(x);
}

inline Vec slice(const Vec& x, int first, int n) {
  return Vec(x.begin() + first, x.begin() + first + n);
}

inline double inner(const Vec& a, const Vec& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

inline Vec spec_rms(const Vec& x, const float* weight, double eps) {
  const double scale = 1 / std::sqrt(inner(x, x) / static_cast<double>(x.size()) + eps);
  Vec y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * static_cast<double>(weight[i]);
  return y;
}

// The rotation as a product of complex numbers; the angle itself is a float32 by contract.
inline Vec spec_rope(const Vec& x, const Rope& rope, const Pos3& pos) {
  Vec y = x;
  const size_t n = rope.inv_freq.size();
  for (size_t i = 0; i < n; ++i) {
    const int axis[] = {pos.t, pos.h, pos.w};
    const float angle = static_cast<float>(axis[rope.axis[i]]) * rope.inv_freq[i];
    const double c = std::cos(static_cast<double>(angle)), s = std::sin(static_cast<double>(angle));
    y[i] = c * x[i] - s * x[n + i];
    y[n + i] = s * x[i] + c * x[n + i];
  }
  return y;
}

// Output of a causal depth-wise convolution at the last row of a history, after silu.
inline Vec spec_conv(const std::vector<Vec>& history, const float* weights, int taps, int dilation) {
  const int width = static_cast<int>(history.back().size()), now = static_cast<int>(history.size()) - 1;
  Vec out(history.back().size());
  for (int c = 0; c < width; ++c) {
    double sum = 0;
    for (int back = 0; back < taps; ++back) {
      const int at = now - back * dilation;
      if (at < 0) continue;
      sum += static_cast<double>(weights[c * taps + taps - 1 - back]) *
             history[static_cast<size_t>(at)][static_cast<size_t>(c)];
    }
    out[static_cast<size_t>(c)] = spec_silu(sum);
  }
  return out;
}

struct SpecGdn {
  const GdnWeights& w;
  std::vector<Vec> history;  // inputs of the convolution
  std::vector<Vec> z;        // by value head: [v_dim][k_dim], transposed on purpose

  explicit SpecGdn(const GdnWeights& weights)
      : w(weights), z(static_cast<size_t>(w.v_heads), Vec(static_cast<size_t>(w.k_dim * w.v_dim))) {}

  static Vec unit(Vec x) {
    const double norm = std::sqrt(inner(x, x) + 1e-6);
    for (double& v : x) v /= norm;
    return x;
  }

  Vec step(const Vec& qkv, const Vec& gate, const Vec& beta_in, const Vec& alpha) {
    history.push_back(qkv);
    const Vec u = spec_conv(history, w.conv, w.conv_kernel, 1);
    const int qk = w.k_heads * w.k_dim;
    Vec out;
    for (int t = 0; t < w.v_heads; ++t) {
      const auto at = static_cast<size_t>(t);
      const int h = t % w.k_heads;
      const Vec q = unit(slice(u, h * w.k_dim, w.k_dim)), k = unit(slice(u, qk + h * w.k_dim, w.k_dim));
      const Vec v = slice(u, 2 * qk + t * w.v_dim, w.v_dim);
      const double pre = alpha[at] + static_cast<double>(w.dt_bias[t]);
      const double decay = std::exp(static_cast<double>(w.a[t]) * (pre > 20 ? pre : std::log(1 + std::exp(pre))));
      Vec o;
      for (int j = 0; j < w.v_dim; ++j) {
        double* column = z[at].data() + j * w.k_dim;
        for (int i = 0; i < w.k_dim; ++i) column[i] *= decay;
        const double recalled = std::inner_product(k.begin(), k.end(), column, 0.0);
        const double d = spec_sigmoid(beta_in[at]) * (v[static_cast<size_t>(j)] - recalled);
        for (int i = 0; i < w.k_dim; ++i) column[i] += k[static_cast<size_t>(i)] * d;
        o.push_back(std::inner_product(q.begin(), q.end(), column, 0.0) / std::sqrt(w.k_dim));
      }
      o = spec_rms(o, w.norm, static_cast<double>(w.eps));
      for (int j = 0; j < w.v_dim; ++j)
        out.push_back(o[static_cast<size_t>(j)] *
                      spec_sigmoid(gate[at * static_cast<size_t>(w.v_dim) + static_cast<size_t>(j)]));
    }
    return out;
  }
};

struct SpecQsa {
  const QsaWeights& w;
  KvFormat format;
  std::vector<Vec> keys, values, raw;
  std::vector<Pos3> positions;

  double stored(double x) const {
    return format == KvFormat::f32 ? x : static_cast<double>(half_to_float(float_to_half(static_cast<float>(x))));
  }
  Vec heads(const Vec& x, int n, int dim, const float* norm, const Pos3& pos) const {
    Vec out;
    for (int h = 0; h < n; ++h) {
      const Vec y = spec_rope(spec_rms(slice(x, h * dim, dim), norm, static_cast<double>(w.eps)), w.rope, pos);
      out.insert(out.end(), y.begin(), y.end());
    }
    return out;
  }
  Vec block_key(int block) const {
    Vec mean(static_cast<size_t>(w.index_dim));
    for (int t = 0; t < w.block_tokens; ++t) {
      const Vec& key = raw[static_cast<size_t>(block * w.block_tokens + t)];
      for (size_t i = 0; i < mean.size(); ++i) mean[i] += key[i] / w.block_tokens;
    }
    return heads(mean, 1, w.index_dim, w.index_k_norm, positions[static_cast<size_t>(block * w.block_tokens)]);
  }
  // Blocks that a row at the end of the history sees; by score, ties to the lower block.
  std::vector<int> selected(const Vec& index_q) const {
    const int blocks = static_cast<int>(keys.size()) / w.block_tokens;
    std::vector<std::pair<double, int>> ranked;
    for (int b = 0; b < blocks; ++b) {
      const Vec key = block_key(b);
      double score = 0;
      for (int h = 0; h < w.index_heads; ++h)
        score += std::max(0.0, inner(slice(index_q, h * w.index_dim, w.index_dim), key));
      ranked.emplace_back(-score, b);
    }
    std::sort(ranked.begin(), ranked.end());
    std::vector<int> best;
    for (int i = 0; i < std::min(blocks, w.budget_blocks); ++i) best.push_back(ranked[static_cast<size_t>(i)].second);
    return best;
  }

  Vec step(const Vec& q_in, const Vec& k, const Vec& v, const Vec& index_q, const Vec& index_k, const Pos3& pos) {
    Vec queries, gate;
    for (int h = 0; h < w.heads; ++h) {
      const Vec q = slice(q_in, h * 2 * w.head_dim, w.head_dim), g = slice(q_in, (2 * h + 1) * w.head_dim, w.head_dim);
      queries.insert(queries.end(), q.begin(), q.end());
      gate.insert(gate.end(), g.begin(), g.end());
    }
    queries = heads(queries, w.heads, w.head_dim, w.q_norm, pos);
    keys.push_back(heads(k, w.kv_heads, w.head_dim, w.k_norm, pos));
    values.push_back(v);
    for (double& x : keys.back()) x = stored(x);
    for (double& x : values.back()) x = stored(x);
    raw.push_back(index_k);
    positions.push_back(pos);

    std::vector<bool> visible(keys.size(), w.budget_blocks == 0);
    if (w.budget_blocks > 0) {
      for (const int b : selected(heads(index_q, w.index_heads, w.index_dim, w.index_q_norm, pos))) {
        for (int t = 0; t < w.block_tokens; ++t) visible[static_cast<size_t>(b * w.block_tokens + t)] = true;
      }
      for (size_t t = keys.size() / static_cast<size_t>(w.block_tokens) * static_cast<size_t>(w.block_tokens);
           t < keys.size(); ++t)
        visible[t] = true;
    }
    return attend(queries, gate, visible);
  }

  Vec attend(const Vec& queries, const Vec& gate, const std::vector<bool>& visible) const {
    Vec out;
    for (int h = 0; h < w.heads; ++h) {
      const int group = h * w.kv_heads / w.heads;
      const Vec q = slice(queries, h * w.head_dim, w.head_dim);
      double total = 0;
      Vec o(static_cast<size_t>(w.value_dim));
      for (size_t t = 0; t < keys.size(); ++t) {
        if (!visible[t]) continue;
        const double weight =
            std::exp(inner(q, slice(keys[t], group * w.head_dim, w.head_dim)) * static_cast<double>(w.scale));
        total += weight;
        for (size_t j = 0; j < o.size(); ++j) o[j] += weight * values[t][static_cast<size_t>(group * w.value_dim) + j];
      }
      for (size_t j = 0; j < o.size(); ++j) out.push_back(o[j] / total * spec_sigmoid(gate[out.size()]));
    }
    return out;
  }
};

// Weights of the n-gram layer with the matrices as values, for the sums in double.
struct SpecPle {
  const PleWeights& w;
  const TestWeight& key;
  const TestWeight& value;
  std::vector<Vec> history;  // inputs of the convolution

  // The streams of one token after the injection.
  Vec step(const Vec& streams, const Vec& looked_up) {
    const Vec keys = key.times(looked_up), values = value.times(looked_up);
    const auto eps = static_cast<double>(w.eps);
    Vec injected, input;
    for (int s = 0; s < w.streams; ++s) {
      const int at = s * w.d_model;
      const Vec k = spec_rms(slice(keys, at, w.d_model), w.norm_key + at, eps);
      const Vec q = spec_rms(slice(streams, at, w.d_model), w.norm_query + at, eps);
      const double a = inner(k, q) / std::sqrt(w.d_model);
      const double sign = a > 0 ? 1 : a < 0 ? -1 : 0;
      const double gain = spec_sigmoid(sign * std::sqrt(std::max(std::fabs(a), 1e-6)));
      Vec b = values;
      for (double& x : b) x *= gain;
      const Vec c = spec_rms(b, w.norm_conv + at, eps);
      injected.insert(injected.end(), b.begin(), b.end());
      input.insert(input.end(), c.begin(), c.end());
    }
    history.push_back(input);
    const Vec convolved = spec_conv(history, w.conv, w.conv_kernel, w.dilation);
    Vec out = streams;
    for (size_t i = 0; i < out.size(); ++i) out[i] += injected[i] + convolved[i];
    return out;
  }
};

inline Vec spec_feed_forward(const TestWeight& gate, const TestWeight& up, const TestWeight& down, const Vec& x) {
  Vec g = gate.times(x);
  const Vec u = up.times(x);
  for (size_t i = 0; i < g.size(); ++i) g[i] = spec_silu(g[i]) * u[i];
  return down.times(g);
}

}  // namespace strata::test
