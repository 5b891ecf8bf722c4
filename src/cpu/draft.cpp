// Entry of the draft head: the next token's embedding and each stream of the wide residual, normed, side by side.
#include <algorithm>

#include "cpu/matmul.h"
#include "cpu/ops_cpu.h"

namespace strata {

void CpuOps::draft_inputs(const DraftWeights& w, std::span<const TokenId> next, MatF32 wide, MatF32 out) {
  const int d = w.d_model, n = w.streams;
  CHECK(static_cast<size_t>(wide.rows) == next.size() && wide.cols == n * d && out.rows == wide.rows * n && out.cols == 2 * d,
        "{} tokens, residual {} x {}, inputs {} x {}", next.size(), wide.rows, wide.cols, out.rows, out.cols);
  CHECK(out.stride == out.cols, "inputs of a row must lie together");
  shop_.each_row(wide.rows, 16, [&](int r, int) {
    const TokenId id = next[static_cast<size_t>(r)];
    CHECK(id.v >= 0 && id.v < w.embed.rows, "token {} of {}", id.v, w.embed.rows);
    // The normed residual goes to the far end of the row's inputs first; moved forward stream by stream, none is overwritten.
    float* first = out.row(r * n);
    float* normed = first + static_cast<int64_t>(n) * d;
    shop_.kernels.rms_norm(wide.row(r), w.hidden_norm, n * d, w.eps, normed);
    for (int s = 0; s < n; ++s) std::copy_n(normed + static_cast<int64_t>(s) * d, d, first + (int64_t{2} * s + 1) * d);
    const DecodedRows row = decode_rows(shop_.kernels, w.embed, id.v, 1, first);
    if (row.data != first) std::copy_n(row.data, d, first);
    if (w.embed.scale != 1.0f) std::transform(first, first + d, first, [&](float x) { return x * w.embed.scale; });
    shop_.kernels.rms_norm(first, w.embed_norm, d, w.eps, first);
    for (int s = 1; s < n; ++s) std::copy_n(first, d, first + int64_t{2} * s * d);
  });
}

}  // namespace strata
