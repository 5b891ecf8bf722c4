// Which rows the next step computes: a pure decision.
#pragma once

#include <algorithm>

#include "ops/state_views.h"

namespace strata {

inline constexpr int kCutTokens = 64;  // prompt chunks end at absolute multiples of this, wherever they began

// Rows of the next prompt chunk: `unread` tokens follow position `length`, at most chunk_rows at once. A chunk that
// does not finish the prompt ends on a cut, so a prompt has the same boundaries however it was fed.
inline int prompt_chunk(Pos length, int unread, int chunk_rows) {
  const int n = std::min(unread, chunk_rows);
  if (n == unread) return n;
  const int past_cut = static_cast<int>((length + n) % kCutTokens);
  return n > past_cut ? n - past_cut : n;
}

}  // namespace strata
