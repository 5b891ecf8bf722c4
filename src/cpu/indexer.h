// The block indexer's part of attention: rotation by position, raw and finished index keys.
#pragma once

#include <cmath>

#include "cpu/kernels.h"
#include "ops/ops.h"

namespace strata {

inline bool has_indexer(const QsaWeights& w) {
  return w.budget_blocks > 0 && w.index_dim > 0;
}

// The rotation of one position: computed once, applied to every head.
class Turn {
 public:
  // cosine and sine: room for one value per pair.
  Turn(const Rope& rope, const Pos3& pos, float* cosine, float* sine)
      : cosine_(cosine), sine_(sine), pairs_(rope.inv_freq.size()) {
    for (size_t i = 0; i < pairs_; ++i) {
      const float angle = static_cast<float>(pos.axis(rope.axis[i])) * rope.inv_freq[i];
      cosine[i] = std::cos(angle);
      sine[i] = std::sin(angle);
    }
  }

  // Turns the pairs (i, i + n) of the first 2n values; the rest passes.
  void apply(float* x) const {
    for (size_t i = 0; i < pairs_; ++i) {
      const float a = x[i], b = x[i + pairs_];
      x[i] = a * cosine_[i] - b * sine_[i];
      x[i + pairs_] = b * cosine_[i] + a * sine_[i];
    }
  }

 private:
  const float* cosine_;
  const float* sine_;
  size_t pairs_;
};

void check_index_memory(const QsaWeights& w, const KvView& kv, int ordinal, int n_rows);

// Index queries of one row, its raw key and position into the ring.
void prepare_index(const Kernels& kernels, const QsaWeights& w, int ordinal, const QsaInputs& in, int row,
                   const KvView& kv, Pos p, const Pos3& pos, const Turn& turn, MatF32 index_q);

// The key of the block that starts at `first`, whose raw keys are all in the ring.
void finish_block(const Kernels& kernels, const QsaWeights& w, int ordinal, const KvView& kv, Pos first,
                  const Turn& turn);

}  // namespace strata
