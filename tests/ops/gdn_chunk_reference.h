// The delta rule for a whole chunk at once, as implementations with matrix products compute it; plain loops, in double.
// With G[i] the sum of log decays up to row i and D[i][j] = e^(G[i]-G[j]) for j <= i:
//   A = beta[i] (k[i].k[j]) D[i][j] below the diagonal;  T = (I + A)^-1;  U = T (beta V);  Y = T (beta e^G K)
//   V' = U - Y Z0;  O = (e^G Q) Z0 + (lower(Q K^T) D) V';  Z1 = e^G[last] Z0 + sum of e^(G[last]-G[i]) k[i] (x) V'[i]
#pragma once

#include <cmath>
#include <vector>

#include "ops/fixtures.h"

namespace strata::test {

// One value head: rows of q (scaled) and k [n][k_dim], v [n][v_dim], log decay and beta [n]; z [k_dim][v_dim] is
// advanced.
struct GdnChunk {
  std::vector<Vec> q, k, v;
  Vec log_decay, beta;
};

inline double chunk_inner(const Vec& a, const Vec& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// x^T Z
inline Vec chunk_through(const Vec& x, const std::vector<Vec>& z) {
  Vec y(z[0].size());
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < y.size(); ++j) y[j] += x[i] * z[i][j];
  }
  return y;
}

inline std::vector<Vec> gdn_chunk_reference(const GdnChunk& c, std::vector<Vec>& z) {
  const size_t n = c.q.size(), v_dim = c.v[0].size();
  Vec total(n);
  for (size_t i = 0; i < n; ++i) total[i] = c.log_decay[i] + (i > 0 ? total[i - 1] : 0);
  // The unit lower triangular solve row by row: (I + A) W = beta V - (beta e^G K) Z0.
  std::vector<Vec> w(n);
  for (size_t i = 0; i < n; ++i) {
    const Vec recalled = chunk_through(c.k[i], z);
    w[i].resize(v_dim);
    for (size_t d = 0; d < v_dim; ++d) w[i][d] = c.beta[i] * (c.v[i][d] - std::exp(total[i]) * recalled[d]);
    for (size_t j = 0; j < i; ++j) {
      const double a = c.beta[i] * chunk_inner(c.k[i], c.k[j]) * std::exp(total[i] - total[j]);
      for (size_t d = 0; d < v_dim; ++d) w[i][d] -= a * w[j][d];
    }
  }
  std::vector<Vec> out(n);
  for (size_t i = 0; i < n; ++i) {
    out[i] = chunk_through(c.q[i], z);
    for (double& o : out[i]) o *= std::exp(total[i]);
    for (size_t j = 0; j <= i; ++j) {
      const double a = chunk_inner(c.q[i], c.k[j]) * std::exp(total[i] - total[j]);
      for (size_t d = 0; d < v_dim; ++d) out[i][d] += a * w[j][d];
    }
  }
  for (size_t a = 0; a < z.size(); ++a) {
    for (size_t d = 0; d < v_dim; ++d) {
      z[a][d] *= std::exp(total[n - 1]);
      for (size_t i = 0; i < n; ++i) z[a][d] += std::exp(total[n - 1] - total[i]) * c.k[i][a] * w[i][d];
    }
  }
  return out;
}

}  // namespace strata::test
