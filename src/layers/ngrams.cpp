// n-gram injection: hands the table and the hashed row numbers of each token to the operation.
#include "layers/block.h"

namespace strata {

void inject_ngrams(const LayerContext& c, const Block& block, const Batch& batch, Activations& a) {
  const NgramRows rows{c.model.ngram_table, batch.ngram_rows.data(), c.model.config.ngram.heads()};
  c.ops.ngram_inject(block.ngram, rows, batch.segments, a.streams, batch.role);
}

}  // namespace strata
