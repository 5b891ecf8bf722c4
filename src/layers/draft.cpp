// Draft head: row r holds the trunk's wide residual of a position and the token that follows it; one attention block
// over cells of such pairs predicts the token after. Cells live in the pages beside the trunk's keys, one per position.
#include <algorithm>

#include "layers/block.h"

namespace strata {
namespace {

// From the residual in a.streams to the block's own streams, in place.
void enter(const LayerContext& c, const Batch& batch, Activations& a) {
  const DraftWeights& w = c.model.draft->entry;
  a.resize(batch.rows());
  const MatF32 inputs(a.draft_inputs.data, batch.rows() * w.streams, 2 * w.d_model);
  c.ops.draft_inputs(w, batch.tokens, a.streams, inputs);
  for (int s = 0; s < w.streams; ++s) {
    const MatF32 in(inputs.row(s), batch.rows(), inputs.cols, int64_t{w.streams} * inputs.cols);
    const MatF32 out(a.streams.data + int64_t{s} * w.d_model, batch.rows(), w.d_model, a.streams.stride);
    c.ops.linear(std::span(&w.proj, 1), in, std::span(&out, 1), batch.role);
  }
}

LayerId draft_layer(const Model& model) {
  return LayerId(static_cast<int>(model.blocks.size()));
}

}  // namespace

void draft_cells(const LayerContext& c, const Batch& batch, Activations& a) {
  const Block& block = c.model.draft->block;
  enter(c, batch, a);
  c.ops.hyper_step(a.streams, {}, block.attn_hyper, {a.x, a.gains[0]});
  attention_cells(c, block, batch, a);
}

void draft_blocks(const LayerContext& c, const Batch& batch, Activations& a) {
  SublayerOutput out;
  enter(c, batch, a);
  forward_block(c, c.model.draft->block, draft_layer(c.model), batch, a, out);
  c.ops.hyper_flush(a.streams, out);
}

}  // namespace strata
