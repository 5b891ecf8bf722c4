// The n-gram hash: which rows of the n-gram table a token reads, from its own id and the ids before it.
//   m_k = t0*M[0] xor t1*M[1] xor ... xor t(k-1)*M[k-1]      (64-bit unsigned, products wrap)
//   row of head h of the k-grams = m_k mod P[h] + O[h]
// Going back from t1, the first end-of-text id and everything before it count as end-of-text; so does the sequence
// start.
#pragma once

#include <cstdint>
#include <span>

#include "model/config.h"

namespace strata {

// previous: ids before `token` in its sequence, oldest first; only the last size-1 are looked at. out: [heads].
inline void ngram_rows(const NgramConfig& c, TokenId token, std::span<const TokenId> previous, uint64_t* out) {
  uint64_t mixed = static_cast<uint64_t>(token.v) * c.multipliers[0];
  bool cut = false;
  int head = 0;
  for (int back = 1; back < c.size; ++back) {
    const auto i = static_cast<size_t>(back);
    cut = cut || i > previous.size() || previous[previous.size() - i] == c.eos;
    const TokenId id = cut ? c.eos : previous[previous.size() - i];
    mixed ^= static_cast<uint64_t>(id.v) * c.multipliers[i];
    for (int k = 0; k < c.heads_per_size; ++k, ++head) {
      const auto h = static_cast<size_t>(head);
      out[head] = mixed % c.head_rows[h] + c.head_offsets[h];
    }
  }
}

}  // namespace strata
