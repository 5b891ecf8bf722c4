#include "layers/block.h"

namespace strata {

void forward_block(const LayerContext& c, const Block& block, LayerId id, const Batch& batch, Activations& a,
                   SublayerOutput& out) {
  if (block.config.ngram) {
    c.ops.hyper_flush(a.streams, out);
    out = {};
    inject_ngrams(c, block, batch, a);
  }
  c.ops.hyper_step(a.streams, out, block.attn_hyper, {a.x, a.gains[0]});
  block.config.mixer == Mixer::delta_net ? gdn(c, block, batch, a) : attention(c, block, batch, a);
  out = {a.y, a.gains[0]};
  c.ops.hyper_step(a.streams, out, block.ffn_hyper, {a.x, a.gains[1]});
  moe(c, block, id, batch, a);
  out = {a.y, a.gains[1]};
}

void forward_blocks(const LayerContext& c, const Batch& batch, Activations& a,
                    const std::function<void(int)>& after_block) {
  a.resize(batch.rows());
  c.ops.embed(c.model.embed, batch.tokens, batch.embeddings, a.streams, c.model.config.streams);
  SublayerOutput out;
  for (size_t i = 0; i < c.model.blocks.size(); ++i) {
    const auto id = static_cast<int>(i);
    forward_block(c, c.model.blocks[i], LayerId(id), batch, a, out);
    if (!after_block) continue;
    c.ops.hyper_flush(a.streams, out);
    out = {};
    after_block(id);
  }
  c.ops.hyper_flush(a.streams, out);
}

}  // namespace strata
