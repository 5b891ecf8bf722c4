// The small formulas that the plain twin is made of. Sums of many terms are kept in double and rounded once, so that
// the twin is nearer to the exact value than any implementation it judges; everything else is float32, as the state is.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/state_views.h"
#include "ops/weights.h"

namespace strata::plain {

// Eight partial sums in a fixed order: vectorises, and depends on nothing but the two vectors.
inline float dot(const float* a, const float* b, int64_t n) {
  double sum[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int lane = 0; lane < 8; ++lane) {
      sum[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
    }
  }
  for (int lane = 0; i + lane < n; ++lane) {
    sum[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
  }
  return static_cast<float>(((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7])));
}

// e^-|x| never overflows.
inline float sigmoid(float x) {
  const float e = std::exp(-std::fabs(x));
  return (x < 0 ? e : 1.0f) / (1.0f + e);
}

inline float silu(float x) {
  return x * sigmoid(x);
}

// log(1 + e^x); above 20 the difference to x is below float32.
inline float softplus(float x) {
  return x > 20.0f ? x : std::log1p(std::exp(x));
}

inline double sum_of_squares(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

// out = x / sqrt(mean(x^2) + eps) * weight; out may be x.
inline void rms_norm(const float* x, const float* weight, int n, float eps, float* out) {
  const auto factor = static_cast<float>(1.0 / std::sqrt(sum_of_squares(x, n) / n + static_cast<double>(eps)));
  for (int i = 0; i < n; ++i) out[i] = x[i] * factor * weight[i];
}

// Turns the pairs (i, i + n) of the first 2n values; the rest passes.
inline void rotate(const Rope& rope, const Pos3& pos, float* x) {
  const size_t n = rope.inv_freq.size();
  for (size_t i = 0; i < n; ++i) {
    const float angle = static_cast<float>(pos.axis(rope.axis[i])) * rope.inv_freq[i];
    const float c = std::cos(angle), s = std::sin(angle);
    const float a = x[i], b = x[i + n];
    x[i] = a * c - b * s;
    x[i + n] = b * c + a * s;
  }
}

}  // namespace strata::plain
