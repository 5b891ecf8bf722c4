// Rows of sequences in, logits out: builds the batch, runs the blocks, and leaves commit to the caller.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/memory_plan.h"
#include "layers/block.h"
#include "state/sequence.h"

namespace strata {

// The next rows of one sequence; all work of a step has one role.
struct Work {
  Sequence* sequence = nullptr;
  std::span<const TokenRecord> rows;
};

class Forward {
 public:
  static Result<std::unique_ptr<Forward>> create(Ops& ops, std::shared_ptr<const Model> model, Store& store,
                                                 const Plan& plan);

  // Begins the sequences, computes. The caller commits each sequence, whatever it does with the result.
  Status run(std::span<const Work> work, const std::function<void(int)>& after_block = nullptr);
  Status run(Sequence& sequence, std::span<const TokenRecord> rows) {
    const Work one{&sequence, rows};
    return run(std::span(&one, 1));
  }

  // The draft head over cells first, first + 1, ...: row r of `wide` is the trunk's residual at that position, next[r]
  // the token that follows it. Only the cells' keys and values, or the whole block with logits for draft_logits.
  Status draft_cells(Sequence& sequence, Pos first, std::span<const TokenId> next, MatF32 wide);
  Status draft(Sequence& sequence, Pos first, std::span<const TokenId> next, MatF32 wide);
  MatF32 draft_logits(int first, int n);
  bool has_draft_head() const { return model_->draft.has_value(); }

  // Watches or decides which experts the rows of every later step use; must outlive the steps. The draft head keeps its
  // own choice.
  void set_routing(RoutingTap* tap) { routing_ = tap; }

  // Logits of rows [first, first + n) of the last batch, n <= kLogitRows; valid until the next call.
  MatF32 logits(int first, int n);
  const Activations& activations() const { return *activations_; }

 private:
  Forward(Ops& ops, std::shared_ptr<const Model> model, Store& store)
      : model_(std::move(model)), context_{ops, *model_, store} {}
  Status add(const Work& work);
  Status begin_draft(Sequence& sequence, Pos first, std::span<const TokenId> next, MatF32 wide);
  void add_ngrams(const Sequence& sequence, std::span<const TokenRecord> rows);

  std::shared_ptr<const Model> model_;
  LayerContext context_;
  std::unique_ptr<Activations> activations_;
  Batch batch_;
  RoutingTap* routing_ = nullptr;
  std::vector<TokenId> window_;  // ids before and in the rows being hashed
};

}  // namespace strata
