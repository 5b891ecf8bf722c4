// Entry of the draft head: the next token's embedding and each stream of the wide residual, normed, side by side.
#include <algorithm>
#include <cmath>

#include "cpu/matmul.h"
#include "cpu/ops_cpu.h"

namespace strata {
namespace {

// 16 partial sums in a fixed order.
float inverse_rms(const float* x, int n, float eps) {
  float sum[16] = {};
  for (int i = 0; i < n; ++i) sum[i % 16] += x[i] * x[i];
  float total = 0;
  for (const float s : sum) total += s;
  return 1.0f / std::sqrt(total / static_cast<float>(n) + eps);
}

}  // namespace

void CpuOps::draft_inputs(const DraftWeights& w, std::span<const TokenId> next, MatF32 wide, MatF32 out) {
  const int d = w.d_model, n = w.streams;
  CHECK(static_cast<size_t>(wide.rows) == next.size() && wide.cols == n * d && out.rows == wide.rows * n &&
            out.cols == 2 * d,
        "{} tokens, residual {} x {}, inputs {} x {}", next.size(), wide.rows, wide.cols, out.rows, out.cols);
  shop_.each_row(wide.rows, 16, [&](int r, int) {
    const TokenId id = next[static_cast<size_t>(r)];
    CHECK(id.v >= 0 && id.v < w.embed.rows, "token {} of {}", id.v, w.embed.rows);
    float* first = out.row(r * n);
    const float factor = inverse_rms(wide.row(r), n * d, w.eps);
    for (int s = 0; s < n; ++s) {
      const float* hidden = wide.row(r) + static_cast<int64_t>(s) * d;
      const float* norm = w.hidden_norm + static_cast<int64_t>(s) * d;
      float* to = out.row(r * n + s) + d;
      for (int i = 0; i < d; ++i) to[i] = hidden[i] * factor * norm[i];
    }
    dequantise(w.embed, id.v, first);
    shop_.kernels.rms_norm(first, w.embed_norm, d, w.eps, first);
    for (int s = 1; s < n; ++s) std::copy_n(first, d, out.row(r * n + s));
  });
}

}  // namespace strata
