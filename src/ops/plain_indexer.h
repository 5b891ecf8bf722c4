// The block indexer's part of attention_prepare; the choice itself is PlainOps::select_blocks.
#pragma once

#include "ops/ops.h"

namespace strata::plain {

inline bool has_indexer(const QsaWeights& w) {
  return w.budget_blocks > 0 && w.index_dim > 0;
}

// Index queries of one row; its raw key into the ring; the block's key when the row completes a block.
void prepare_index(const QsaWeights& w, int ordinal, const QsaInputs& in, int row, const Pos3& pos, const KvView& kv,
                   Pos p, MatF32 index_q);

}  // namespace strata::plain
