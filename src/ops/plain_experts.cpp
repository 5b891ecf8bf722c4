// The mixture of experts: which experts a row uses, and the sum of what they say.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "ops/plain_math.h"
#include "ops/plain_ops.h"
#include "ops/plain_weights.h"

namespace strata {
namespace {

using plain::OwnedMat;

constexpr float kLargeSum = 1e30f;

// Experts by descending logit; equal ones by ascending id. What is not a number ranks last, so that the order stays
// total.
void rank_experts(const float* logits, std::vector<int32_t>& order, int n_used) {
  const auto key = [&](int32_t e) {
    return std::isnan(logits[e]) ? -std::numeric_limits<float>::infinity() : logits[e];
  };
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + n_used, order.end(), [&](int32_t a, int32_t b) {
    const float key_a = key(a), key_b = key(b);
    return key_a != key_b ? key_a > key_b : a < b;
  });
}

// The chosen experts' part of the softmax over all. A NaN anywhere makes every weight NaN.
void weigh_row(const float* logits, int n_experts, const int32_t* ids, int n_used, float* weights) {
  // Shifted by the best of the chosen, which may be far below the best of all: then only their own sum counts.
  float shift = logits[ids[0]];
  for (int i = 1; i < n_used; ++i) shift = logits[ids[i]] > shift ? logits[ids[i]] : shift;
  float total = 0;
  for (int e = 0; e < n_experts; ++e) total += std::exp(logits[e] - shift);
  if (total > kLargeSum) total = 1;
  float best = 0;
  for (int i = 0; i < n_used; ++i) {
    weights[i] = std::exp(logits[ids[i]] - shift) / total;
    best += weights[i];
  }
  for (int i = 0; i < n_used; ++i) weights[i] /= best;
}

// y = down( silu(gate x) * (up x) )
void feed_forward(const FfnWeights& w, MatF32 x, MatF32 y) {
  const auto width = static_cast<int>(w.gate.rows);
  const OwnedMat gate(x.rows, width), up(x.rows, width);
  plain::multiply(w.gate, x, gate.mat());
  plain::multiply(w.up, x, up.mat());
  for (int r = 0; r < x.rows; ++r) {
    for (int i = 0; i < width; ++i) gate.row(r)[i] = plain::silu(gate.row(r)[i]) * up.row(r)[i];
  }
  plain::multiply(w.down, gate.mat(), y);
}

// For each expert the (row, rank) pairs that use it, as row * n_used + rank, ascending.
std::vector<std::vector<int>> uses_by_expert(const ExpertLayer& layer, const Routed& routed, int rows) {
  std::vector<std::vector<int>> uses(static_cast<size_t>(layer.n_experts));
  for (int use = 0; use < rows * routed.n_used; ++use) {
    const int32_t id = routed.ids[use];
    CHECK(id >= 0 && id < layer.n_experts, "expert {} of {}", id, layer.n_experts);
    uses[static_cast<size_t>(id)].push_back(use);
  }
  return uses;
}

}  // namespace

void PlainOps::route(const Weight& router, MatF32 x, Routed out) {
  const auto n_experts = static_cast<int>(router.rows);
  CHECK(out.n_used > 0 && out.n_used <= n_experts, "{} of {} experts", out.n_used, n_experts);
  const OwnedMat logits(x.rows, n_experts);
  plain::multiply(router, x, logits.mat());
  std::vector<int32_t> order(static_cast<size_t>(n_experts));
  for (int r = 0; r < x.rows; ++r) {
    int32_t* ids = out.ids + static_cast<int64_t>(r) * out.n_used;
    rank_experts(logits.row(r), order, out.n_used);
    std::copy_n(order.data(), out.n_used, ids);
    weigh_row(logits.row(r), n_experts, ids, out.n_used, out.weights + static_cast<int64_t>(r) * out.n_used);
  }
}

void PlainOps::weigh(const Weight& router, MatF32 x, Routed chosen) {
  const auto n_experts = static_cast<int>(router.rows);
  CHECK(chosen.n_used > 0 && chosen.n_used <= n_experts, "{} of {} experts", chosen.n_used, n_experts);
  const OwnedMat logits(x.rows, n_experts);
  plain::multiply(router, x, logits.mat());
  for (int r = 0; r < x.rows; ++r) {
    const int64_t first = static_cast<int64_t>(r) * chosen.n_used;
    weigh_row(logits.row(r), n_experts, chosen.ids + first, chosen.n_used, chosen.weights + first);
  }
}

void PlainOps::experts(const ExpertLayer& layer, MatF32 x, const Routed& routed, MatF32 y, RowRole) {
  CHECK(x.cols == layer.d_model && y.cols == layer.d_model && x.rows == y.rows,
        "input {} x {}, output {} x {}, width {}", x.rows, x.cols, y.rows, y.cols, layer.d_model);
  const int n_used = routed.n_used;
  const OwnedMat results(x.rows * n_used, layer.d_model);
  const std::vector<std::vector<int>> uses = uses_by_expert(layer, routed, x.rows);
  for (int id = 0; id < layer.n_experts; ++id) {
    const std::vector<int>& of_expert = uses[static_cast<size_t>(id)];
    if (of_expert.empty()) continue;
    const auto n = static_cast<int>(of_expert.size());
    const OwnedMat inputs(n, layer.d_model), outputs(n, layer.d_model);
    for (int i = 0; i < n; ++i) {
      std::copy_n(x.row(of_expert[static_cast<size_t>(i)] / n_used), layer.d_model, inputs.row(i));
    }
    feed_forward(layer.expert(id), inputs.mat(), outputs.mat());
    for (int i = 0; i < n; ++i) {
      std::copy_n(outputs.row(i), layer.d_model, results.row(of_expert[static_cast<size_t>(i)]));
    }
  }

  const OwnedMat shared(x.rows, layer.d_model), shared_gain(x.rows, 1);
  feed_forward(layer.shared, x, shared.mat());
  plain::multiply(layer.shared_gate, x, shared_gain.mat());
  for (int r = 0; r < x.rows; ++r) {
    std::fill_n(y.row(r), layer.d_model, 0.0f);
    for (int rank = 0; rank < n_used; ++rank) {
      const int use = r * n_used + rank;
      for (int c = 0; c < layer.d_model; ++c) y.row(r)[c] += routed.weights[use] * results.row(use)[c];
    }
    const float gain = plain::sigmoid(shared_gain.row(r)[0]);
    for (int c = 0; c < layer.d_model; ++c) y.row(r)[c] += gain * shared.row(r)[c];
  }
}

}  // namespace strata
