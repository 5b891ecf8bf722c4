// Gated delta net layer: projections, the mixer, the output projection.
#include <array>

#include "layers/block.h"

namespace strata {

void gdn(const LayerContext& c, const Block& block, const Batch& batch, Activations& a) {
  const GdnWeights& w = block.gdn;
  const std::array in{w.qkv, w.gate, w.beta, w.alpha};
  const std::array projected{a.qkv, a.gate, a.beta, a.alpha};
  c.ops.linear(in, a.x, projected, batch.role);
  const MatF32 mixed(a.mixed.data, batch.rows(), w.value_width());
  c.ops.gdn_mix(w, block.config.ordinal, {a.qkv, a.gate, a.beta, a.alpha}, batch.segments, mixed);
  c.ops.linear(std::span(&w.out, 1), mixed, std::span(&a.y, 1), batch.role);
}

}  // namespace strata
