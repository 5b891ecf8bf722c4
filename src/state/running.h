// Recurrent state of one sequence: delta-net states and convolution histories. It cannot be shortened, so a step writes
// pending places and commit makes them permanent:
//   generated window   the step logs what each row would do to the state; commit(n) keeps the first n log rows, and the
//                      next step applies them to `base` while it loads the state it reads anyway;
//   prompt chunk       the step writes the whole new state into `next`; commit swaps it in, or drops it.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "ops/memory.h"
#include "ops/ops.h"
#include "ops/state_views.h"

namespace strata {

// Sizes in values of what one sequence holds. Pure; also what the memory plan counts with.
struct RunningGeometry {
  int n_gdn = 0, k_heads = 0, v_heads = 0, k_dim = 0, v_dim = 0;
  int conv_rows = 0, conv_width = 0;  // of each delta-net layer
  int ple_rows = 0, ple_width = 0;    // of the n-gram layer; 0 without one

  size_t state_values() const { return size_t{1} * v_heads * k_dim * v_dim; }
  size_t snapshot_bytes() const;  // base states and histories only
  size_t total_bytes() const;     // with pending places and logs, padded as the arena pads
};
RunningGeometry running_geometry(const ModelConfig& config);

class RunningState {
 public:
  static Result<std::unique_ptr<RunningState>> create(Memory& memory, const RunningGeometry& geometry);

  // Pointers for operations; kv is left to the owner of the pages.
  void fill(SequenceView& view) {
    view.gdn = gdn_.data(), view.ple = ple_, view.log_current = log_current_, view.kept_rows = kept_rows_;
  }
  // After a step of n rows: keep the first n_keep (of a prompt chunk: all or none).
  void commit(RowRole role, int n, int n_keep);
  int kept_rows() const { return kept_rows_; }
  // Forgets the last n kept rows; they must still be in the log.
  void drop_kept(int n);

  // Base states as one block, and back. The log must have been settled (kept rows applied) before.
  void set_settled() { kept_rows_ = 0; }
  void copy_out(std::byte* to) const;
  void copy_in(const std::byte* from);
  void reset();  // the start of a sequence: zeros
  const RunningGeometry& geometry() const { return geometry_; }

 private:
  RunningState(Memory& memory, const RunningGeometry& geometry, Buffer buffer);
  template <class Fn>
  void each_base(Fn&& fn) const;  // fn(pointer, bytes) over the base buffers in a fixed order

  Memory& memory_;
  RunningGeometry geometry_;
  Arena arena_;
  std::vector<GdnState> gdn_;
  ConvState ple_;
  int log_current_ = 0, kept_rows_ = 0;
};

}  // namespace strata
