// Entry of the draft head: the next token's embedding and each stream of the wide residual, normed, side by side.
#include <algorithm>

#include "base/check.h"
#include "ops/plain_math.h"
#include "ops/plain_ops.h"
#include "quant/reference.h"

namespace strata {

void PlainOps::draft_inputs(const DraftWeights& w, std::span<const TokenId> next, MatF32 wide, MatF32 out) {
  const int d = w.d_model, n = w.streams;
  CHECK(static_cast<size_t>(wide.rows) == next.size() && wide.cols == n * d && out.rows == wide.rows * n &&
            out.cols == 2 * d,
        "{} tokens, residual {} x {}, inputs {} x {}", next.size(), wide.rows, wide.cols, out.rows, out.cols);
  for (int r = 0; r < wide.rows; ++r) {
    const TokenId id = next[static_cast<size_t>(r)];
    CHECK(id.v >= 0 && id.v < w.embed.rows, "token {} of {}", id.v, w.embed.rows);
    float* first = out.row(r * n);
    dequantise_row(w.embed.type, w.embed.row(id.v), d, first);
    for (int i = 0; i < d; ++i) first[i] *= w.embed.scale;
    plain::rms_norm(first, w.embed_norm, d, w.eps, first);
    const auto factor = static_cast<float>(
        1.0 / std::sqrt(plain::sum_of_squares(wide.row(r), wide.cols) / wide.cols + static_cast<double>(w.eps)));
    for (int s = 0; s < n; ++s) {
      float* at = out.row(r * n + s);
      if (s > 0) std::copy_n(first, d, at);
      for (int i = 0; i < d; ++i) at[d + i] = wide.row(r)[s * d + i] * factor * w.hidden_norm[s * d + i];
    }
  }
}

}  // namespace strata
