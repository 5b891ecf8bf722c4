#include "ops/plain_ops.h"

#include <algorithm>

namespace strata {

Status PlainOps::reserve(const OpsShapes&) {
  return {};
}

// The widest temporaries of one call: norm and mix of the streams, expert results by rank, convolved channels.
size_t PlainOps::scratch_bytes(const OpsShapes& shapes) const {
  const auto rows = static_cast<size_t>(shapes.max_rows);
  const auto wide = static_cast<size_t>(shapes.d_model) * static_cast<size_t>(shapes.streams);
  const size_t hyper = 2 * wide + static_cast<size_t>(shapes.hyper_rank);
  const size_t ngram = 2 * wide + static_cast<size_t>(shapes.d_model + shapes.ngram_width);
  const size_t experts = static_cast<size_t>(shapes.max_experts_used + 2) * static_cast<size_t>(shapes.d_model) +
                         2 * static_cast<size_t>(shapes.max_expert_width);
  const size_t mixer = 3 * static_cast<size_t>(shapes.max_gdn_channels);
  const size_t per_row = std::max({hyper, ngram, experts, mixer});
  return sizeof(float) *
         (rows * per_row + static_cast<size_t>(shapes.max_linear_inputs) + 4 * static_cast<size_t>(shapes.max_context));
}

std::unique_ptr<Ops> make_plain_ops() {
  return std::make_unique<PlainOps>();
}

}  // namespace strata
