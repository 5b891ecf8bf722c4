// Sparse attention layer: projections, the indexer's choice of blocks, attention over them, the output projection.
#include <array>

#include "layers/block.h"

namespace strata {

void attention_cells(const LayerContext& c, const Block& block, const Batch& batch, Activations& a) {
  const QsaWeights& w = block.attention;
  const bool indexed = w.budget_blocks > 0;
  const std::array in{w.q, w.k, w.v, w.index_q, w.index_k};
  const std::array projected{a.q, a.k, a.v, a.index_q, a.index_k};
  const size_t n = indexed ? 5 : 3;
  c.ops.linear(std::span(in).first(n), a.x, std::span(projected).first(n), batch.role);

  QsaInputs inputs{a.q, a.k, a.v, {}, {}};
  if (indexed) inputs.index_q = a.index_q, inputs.index_k = a.index_k;
  c.ops.attention_prepare(w, block.config.ordinal, inputs, batch.positions, batch.segments, a.queries);
}

void attention(const LayerContext& c, const Block& block, const Batch& batch, Activations& a) {
  const QsaWeights& w = block.attention;
  const int layer = block.config.ordinal;
  attention_cells(c, block, batch, a);
  c.ops.select_blocks(w, layer, a.queries, batch.segments, a.selection);
  const MatF32 mixed(a.mixed.data, batch.rows(), w.heads * w.value_dim);
  c.ops.sparse_attention(w, layer, a.queries, a.selection, batch.segments, mixed);
  c.ops.linear(std::span(&w.out, 1), mixed, std::span(&a.y, 1), batch.role);
}

}  // namespace strata
