// Output head: the final read of the streams, then the output matrix, for the rows that want logits.
#include <array>
#include <numeric>

#include "layers/block.h"

namespace strata {

void logits(const LayerContext& c, Head which, const Batch& batch, Activations& a, int first, int n) {
  CHECK(n <= kLogitRows && first >= 0 && first + n <= batch.rows(), "logits of rows {} to {}", first, first + n);
  std::array<int, kLogitRows> rows{};
  std::iota(rows.begin(), rows.begin() + n, 0);
  const HyperWeights& read = which == Head::trunk ? c.model.output_hyper : c.model.draft->head_hyper;
  const Weight& matrix = which == Head::trunk ? c.model.head : c.model.draft->head;
  const MatF32 x(a.x.data, n, a.x.cols);
  c.ops.hyper_step(a.streams.rows_from(first, n), {}, read, {x, {}});
  c.ops.head(matrix, x, std::span(rows).first(static_cast<size_t>(n)), MatF32(a.logits.data, n, a.logits.cols));
}

}  // namespace strata
