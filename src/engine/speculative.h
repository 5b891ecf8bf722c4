// Drafting with the model's own draft head. The drafter only proposes: every token is drawn from the trunk's logits at
// its own position, so the text is the same with drafting on or off; what changes is how many tokens a step yields.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/forward.h"

namespace strata {

// Whether drafting pays for a request, from what steps cost and yielded. Measures a few steps without drafts, then
// drafts, and gives up for the rest of the request when drafted steps yield fewer tokens per second. Pure: fed with
// durations.
class DraftPolicy {
 public:
  static constexpr int kPlainSteps = 3;  // measured first, after one that warms up
  static constexpr int kTrialSteps = 4;  // drafted steps before the first verdict
  static constexpr double kMustGain = 1.02;

  explicit DraftPolicy(int max_drafts) : max_drafts_(max_drafts) {}
  int drafts() const { return decided_off_ || plain_steps_ <= kPlainSteps ? 0 : max_drafts_; }
  bool off() const { return decided_off_ || max_drafts_ == 0; }
  void record(int drafts, int tokens, double seconds);

 private:
  int max_drafts_;
  int plain_steps_ = 0, trial_steps_ = 0;
  double plain_seconds_ = 0, trial_seconds_ = 0;
  int trial_tokens_ = 0;
  bool decided_off_ = false;
};

// Keeps the draft head's cells in step with one sequence and proposes tokens. Stale cells after a rewind cost
// acceptance, never correctness.
class Drafter {
 public:
  Drafter(Forward& forward, Sequence& sequence) : forward_(forward), sequence_(sequence) {}

  // After a step whose rows were kept from position `first`: following[i] is the token after row i; the last row's may
  // be unknown yet (following one shorter than rows). The step's residuals must still be in the activations.
  Status observe(Pos first, int rows, std::span<const TokenId> following);
  // Proposes up to n tokens to follow `token`, which is the last one drawn and not yet computed.
  Result<std::vector<TokenId>> propose(TokenId token, int n);
  void reset() { residual_at_.reset(); }

 private:
  void keep(MatF32 row, Pos at);

  Forward& forward_;
  Sequence& sequence_;
  std::vector<float> residual_;  // the trunk's, of the last kept position
  std::optional<Pos> residual_at_;
};

}  // namespace strata
