// The model's mathematics in order: every block is a hyper step, a mixer, a hyper step, experts. Nothing here knows
// whether rows are a prompt, one decoded token or a window to verify, nor which machine computes.
#pragma once

#include <functional>

#include "experts/store.h"
#include "layers/batch.h"
#include "model/weights.h"
#include "ops/ops.h"

namespace strata {

struct LayerContext {
  Ops& ops;
  const Model& model;
  Store& store;
};

// Embeds the batch and runs every block; a.streams is then the wide residual after the last write.
// after_block(index) may look at a.streams in between (tests do); it costs an extra flush per block when set.
void forward_blocks(const LayerContext& c, const Batch& batch, Activations& a,
                    const std::function<void(int)>& after_block = nullptr);

// One block for rows whose streams are in `a`; `out` is what is still to be written, before and after.
void forward_block(const LayerContext& c, const Block& block, LayerId id, const Batch& batch, Activations& a,
                   SublayerOutput& out);

// Mixers: x in a.x, result in a.y.
void gdn(const LayerContext& c, const Block& block, const Batch& batch, Activations& a);
void attention(const LayerContext& c, const Block& block, const Batch& batch, Activations& a);
// The part of attention that fills keys and values: projections, norms, rotation.
void attention_cells(const LayerContext& c, const Block& block, const Batch& batch, Activations& a);
// Experts: x in a.x, result in a.y.
void moe(const LayerContext& c, const Block& block, LayerId id, const Batch& batch, Activations& a);
// n-gram injection into a.streams.
void inject_ngrams(const LayerContext& c, const Block& block, const Batch& batch, Activations& a);
// The draft head for rows of (wide residual in a.streams, next token in the batch). draft_cells only fills the rows'
// keys and values; draft_blocks runs the whole block, a.streams is then the residual for the next draft.
void draft_cells(const LayerContext& c, const Batch& batch, Activations& a);
void draft_blocks(const LayerContext& c, const Batch& batch, Activations& a);

// Logits of rows [first, first + n) into the first n rows of a.logits; n <= kLogitRows.
enum class Head : uint8_t { trunk, draft };
void logits(const LayerContext& c, Head which, const Batch& batch, Activations& a, int first, int n);

}  // namespace strata
