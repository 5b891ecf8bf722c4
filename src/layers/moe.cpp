// Mixture of experts: the router's choice, the routed experts through the store's table, the shared expert.
#include "layers/block.h"

namespace strata {

void moe(const LayerContext& c, const Block& block, LayerId id, const Batch& batch, Activations& a) {
  const ExpertLayer& layer = c.store.layer(id);
  Routed routed = a.routed;
  routed.n_used = layer.n_used;
  if (batch.routing != nullptr && batch.routing->choose(id, batch.segments, routed)) {
    c.ops.weigh(block.router, a.x, routed);
  } else {
    c.ops.route(block.router, a.x, routed);
  }
  if (batch.routing != nullptr) batch.routing->see(id, batch.segments, routed);
  c.ops.experts(layer, a.x, routed, a.y, batch.role);
  c.store.count(batch.rows() * layer.n_used);
}

}  // namespace strata
