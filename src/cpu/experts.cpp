// The mixture of experts. Two passes over the pool: hidden values of every expert that a row uses, with the rows of an
// expert together; then tiles of outputs over all experts, so that a task can add what the experts say to a row in rank
// order without a third pass.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "cpu/matmul.h"
#include "cpu/ops_cpu.h"
#include "cpu/scratch.h"

namespace strata {
namespace {

// The n_used best of a row: by logit, ties to the lower expert; what is not a number ranks last.
void pick_experts(const float* logits, int n_experts, int n_used, int32_t* ids) {
  const auto key = [&](int e) { return std::isnan(logits[e]) ? -std::numeric_limits<float>::infinity() : logits[e]; };
  // A list of the best so far in order; a new one moves the weaker ones down.
  int count = 0;
  for (int e = 0; e < n_experts; ++e) {
    const float value = key(e);
    if (count == n_used && !(value > key(ids[count - 1]))) continue;
    int at = count < n_used ? count++ : count - 1;
    for (; at > 0 && value > key(ids[at - 1]); --at) ids[at] = ids[at - 1];
    ids[at] = e;
  }
}

// Softmax over all experts, then the chosen ones renormalised; overwrites the logits.
void weigh_experts(const Kernels& k, float* logits, int n_experts, int n_used, const int32_t* ids, float* weights) {
  // Shifted by the best of the chosen, which may be far below the best of all: then only their own sum counts.
  float shift = logits[ids[0]];
  for (int i = 1; i < n_used; ++i) shift = logits[ids[i]] > shift ? logits[ids[i]] : shift;
  float total = k.exp_sum(logits, shift, n_experts);
  if (total > 1e30f) total = 1;
  float best = 0;
  for (int i = 0; i < n_used; ++i) {
    weights[i] = logits[ids[i]] / total;
    best += weights[i];
  }
  for (int i = 0; i < n_used; ++i) weights[i] /= best;
}

// One call of `experts`: the shared expert counts as one more, after the routed ones.
class ExpertCall {
 public:
  ExpertCall(const Workshop& shop, const ExpertLayer& layer, MatF32 x, const Routed& routed, MatF32 y)
      : shop_(shop),
        layer_(layer),
        x_(x),
        y_(y),
        routed_(routed),
        uses_(x.rows * routed.n_used),
        shared_width_(static_cast<int>(layer.shared.gate.rows)) {
    Carver shared = shop.shared();
    s_ = ExpertScratch::carve(shared, x.rows, layer.n_experts, routed.n_used, std::max(layer.width, shared_width_),
                              layer.d_model);
    order_uses();
  }

  void run() {
    quantise_inputs();
    const int width = std::max(layer_.width, shared_width_);
    const int hidden = part_size(width, n_active_ + 1, ExpertUpTask::kHidden, ExpertUpTask::kMaxHidden);
    const int parts = (width + hidden - 1) / hidden;
    // The last task is the gate of the shared expert.
    const int n_tasks = (n_active_ + 1) * parts + 1;
    shop_.pool.run(n_tasks, [&](int task, int thread) {
      if (task == n_tasks - 1) return shared_gains(thread);
      hidden_part(task / parts, task % parts * hidden, hidden, thread);
    });
    quantise_hidden();
    const int wide = uses_ <= ExpertDownTask::kFewUses ? ExpertDownTask::kMaxOutputs : ExpertDownTask::kOutputs;
    shop_.pool.parallel_for(layer_.d_model, part_size(layer_.d_model, 1, ExpertDownTask::kOutputs, wide),
                            [&](int first, int last, int thread) { outputs(first, last - first, thread); });
  }

 private:
  struct Member {
    FfnWeights w;
    int first_slot, n_slots, width;
  };

  // Sorts the uses by expert and lists the experts that have any.
  void order_uses() {
    std::fill_n(s_.first_slot, layer_.n_experts + 1, 0);
    for (int use = 0; use < uses_; ++use) {
      const int32_t id = routed_.ids[use];
      CHECK(id >= 0 && id < layer_.n_experts, "expert {} of {}", id, layer_.n_experts);
      ++s_.first_slot[id + 1];
    }
    for (int e = 0; e < layer_.n_experts; ++e) {
      if (s_.first_slot[e + 1] > 0) s_.active[n_active_++] = e;
      s_.first_slot[e + 1] += s_.first_slot[e];
    }
    for (int use = 0; use < uses_; ++use) {
      const int slot = s_.first_slot[routed_.ids[use]]++;  // moves each start to its end, the start of the next
      s_.slot_of[use] = slot;
      s_.inputs[slot] = x_.row(use / routed_.n_used);
    }
    for (int e = layer_.n_experts; e > 0; --e) s_.first_slot[e] = s_.first_slot[e - 1];
    s_.first_slot[0] = 0;
    for (int r = 0; r < x_.rows; ++r) s_.inputs[uses_ + r] = x_.row(r);
    for (int slot = 0; slot < uses_ + x_.rows; ++slot) s_.hidden_rows[slot] = s_.hidden.row(slot);
  }

  Member member(int index) const {
    if (index == n_active_) return {layer_.shared, uses_, x_.rows, shared_width_};
    const int32_t id = s_.active[index];
    return {layer_.expert(id), s_.first_slot[id], s_.first_slot[id + 1] - s_.first_slot[id], layer_.width};
  }

  // Outputs of a task: large pieces, but several for each thread; a multiple of `least`.
  int part_size(int outputs, int matrices, int least, int most) const {
    const int64_t share = int64_t{outputs} * matrices / (int64_t{kTasksPerThread} * shop_.pool.n_threads());
    return static_cast<int>(std::clamp<int64_t>(share / least * least, least, most));
  }

  // Rows of x once, although several experts read them.
  void quantise_inputs() {
    uint32_t orders = act_orders(shop_.kernels, layer_.shared_gate.type);
    for (const DType type : {layer_.gate_type, layer_.up_type, layer_.shared.gate.type, layer_.shared.up.type}) {
      orders |= act_orders(shop_.kernels, type);
    }
    const int rows = x_.rows;
    const ActRows acts = quantise(shop_, s_.input_room, s_.inputs + uses_, rows, layer_.d_model, orders);
    for (int i = 0; i < kActOrders; ++i) {
      if (acts.blocks[i] == nullptr) continue;
      for (int use = 0; use < uses_; ++use) {
        s_.input_blocks[i][s_.slot_of[use]] = acts.blocks[i][use / routed_.n_used];
      }
      std::copy_n(acts.blocks[i], rows, s_.input_blocks[i] + uses_);
      inputs_.blocks[i] = s_.input_blocks[i];
    }
    inputs_.f32 = s_.inputs;
  }

  // Routed and shared experts have their own widths, and may have their own types.
  void quantise_hidden() {
    routed_hidden_ = quantise(shop_, s_.hidden_room, s_.hidden_rows, uses_, layer_.width,
                              act_orders(shop_.kernels, layer_.down_type));
    shared_hidden_ = quantise(shop_, s_.shared_room, s_.hidden_rows + uses_, x_.rows, shared_width_,
                              act_orders(shop_.kernels, layer_.shared.down.type));
  }

  // silu(gate x) * (up x) for hidden values [first, first + n) of one expert.
  void hidden_part(int index, int first, int n, int thread) {
    const Member m = member(index);
    const int count = std::min(n, m.width - first);
    if (count <= 0) return;
    Carver own = shop_.of_thread(thread);
    const ExpertUpTask t = ExpertUpTask::carve(own, layer_.d_model);
    const Kernels& k = shop_.kernels;
    for (int s0 = 0; s0 < m.n_slots; s0 += ExpertUpTask::kRows) {
      const int rows = std::min(ExpertUpTask::kRows, m.n_slots - s0);
      const ActRows inputs = inputs_.from(m.first_slot + s0);
      const MatF32 hidden = s_.hidden.rows_from(m.first_slot + s0, rows);
      dot_part(shop_, m.w.gate, first, count, inputs, rows, hidden.data + first, hidden.stride, t.tile);
      dot_part(shop_, m.w.up, first, count, inputs, rows, t.products, count, t.tile);
      for (int i = 0; i < rows; ++i) k.silu_times(hidden.row(i) + first, t.products + i * count, count);
    }
  }

  // How much of the shared expert each row gets.
  void shared_gains(int thread) {
    Carver own = shop_.of_thread(thread);
    const ExpertUpTask t = ExpertUpTask::carve(own, layer_.d_model);
    dot_part(shop_, layer_.shared_gate, 0, 1, inputs_.from(uses_), x_.rows, s_.shared_gain, 1, t.tile);
    shop_.kernels.sigmoid(s_.shared_gain, 1.0f, 1.0f, x_.rows);
  }

  // Outputs [first, first + count) of all rows.
  void outputs(int first, int count, int thread) {
    Carver own = shop_.of_thread(thread);
    const ExpertDownTask t = ExpertDownTask::carve(own, x_.rows, routed_.n_used, std::max(layer_.width, shared_width_));
    const Kernels& k = shop_.kernels;
    for (int index = 0; index <= n_active_; ++index) {
      const Member m = member(index);
      const ActRows hidden = index == n_active_ ? shared_hidden_ : routed_hidden_.from(m.first_slot);
      dot_part(shop_, m.w.down, first, count, hidden, m.n_slots,
               t.products + static_cast<int64_t>(m.first_slot) * count, count, t.tile);
    }
    for (int r = 0; r < x_.rows; ++r) {
      float* to = y_.row(r) + first;
      std::fill_n(to, count, 0.0f);
      for (int use = r * routed_.n_used; use < (r + 1) * routed_.n_used; ++use) {
        k.add_scaled(to, t.products + static_cast<int64_t>(s_.slot_of[use]) * count, routed_.weights[use], count);
      }
      k.add_scaled(to, t.products + static_cast<int64_t>(uses_ + r) * count, s_.shared_gain[r], count);
    }
  }

  static constexpr int kTasksPerThread = 6;
  const Workshop& shop_;
  const ExpertLayer& layer_;
  const MatF32 x_, y_;
  const Routed& routed_;
  const int uses_, shared_width_;
  int n_active_ = 0;
  ExpertScratch s_{};
  ActRows inputs_, routed_hidden_, shared_hidden_;  // by slot
};

}  // namespace

// The router's logits of every row.
RouteScratch CpuOps::router_logits(const Weight& router, MatF32 x, int n_used) {
  const auto n_experts = static_cast<int>(router.rows);
  CHECK(n_used > 0 && n_used <= n_experts, "{} of {} experts", n_used, n_experts);
  Carver shared = shop_.shared();
  const RouteScratch s = RouteScratch::carve(shared, x.rows, n_experts);
  const ActRoom room = ActRoom::carve(shared, x.rows, x.cols);
  for (int r = 0; r < x.rows; ++r) s.x[r] = x.row(r);
  const ActRows acts = quantise(shop_, room, s.x, x.rows, x.cols, act_orders(shop_.kernels, {&router, 1}));
  multiply(shop_, {&router, 1}, acts, {&s.logits, 1});
  return s;
}

void CpuOps::route(const Weight& router, MatF32 x, Routed out) {
  const RouteScratch s = router_logits(router, x, out.n_used);
  shop_.each_row(x.rows, 8, [&](int r, int) {
    const int64_t first = static_cast<int64_t>(r) * out.n_used;
    pick_experts(s.logits.row(r), s.logits.cols, out.n_used, out.ids + first);
    weigh_experts(shop_.kernels, s.logits.row(r), s.logits.cols, out.n_used, out.ids + first, out.weights + first);
  });
}

void CpuOps::weigh(const Weight& router, MatF32 x, Routed chosen) {
  const RouteScratch s = router_logits(router, x, chosen.n_used);
  shop_.each_row(x.rows, 8, [&](int r, int) {
    const int64_t first = static_cast<int64_t>(r) * chosen.n_used;
    weigh_experts(shop_.kernels, s.logits.row(r), s.logits.cols, chosen.n_used, chosen.ids + first,
                  chosen.weights + first);
  });
}

void CpuOps::experts(const ExpertLayer& layer, MatF32 x, const Routed& routed, MatF32 y, RowRole) {
  CHECK(x.cols == layer.d_model && y.cols == layer.d_model && x.rows == y.rows,
        "input {} x {}, output {} x {}, width {}", x.rows, x.cols, y.rows, y.cols, layer.d_model);
  ExpertCall(shop_, layer, x, routed, y).run();
}

}  // namespace strata
