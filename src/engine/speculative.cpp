#include "engine/speculative.h"

#include <algorithm>

namespace strata {

void DraftPolicy::record(int drafts, int tokens, double seconds) {
  if (drafts == 0) {
    if (plain_steps_++ > 0) plain_seconds_ += seconds;  // the first step may still be warming up
    return;
  }
  ++trial_steps_;
  trial_seconds_ += seconds;
  trial_tokens_ += tokens;
  if (trial_steps_ < kTrialSteps) return;
  const double plain_rate = (plain_steps_ - 1) / std::max(plain_seconds_, 1e-9);
  const double trial_rate = trial_tokens_ / std::max(trial_seconds_, 1e-9);
  decided_off_ = trial_rate < kMustGain * plain_rate;
  trial_steps_ = trial_tokens_ = 0;
  trial_seconds_ = 0;
}

void Drafter::keep(MatF32 row, Pos at) {
  residual_.resize(static_cast<size_t>(row.cols));
  std::copy_n(row.data, row.cols, residual_.data());
  residual_at_ = at;
}

Status Drafter::observe(Pos first, int rows, std::span<const TokenId> following) {
  const MatF32 streams = forward_.activations().streams;
  const auto known = static_cast<int>(following.size());
  CHECK(known == rows || known == rows - 1, "{} rows, {} following tokens", rows, known);
  std::vector<float> last(streams.row(rows - 1), streams.row(rows - 1) + streams.cols);
  if (known > 0) RETURN_IF_ERROR(forward_.draft_cells(sequence_, first, following, streams.rows_from(0, known)));
  keep(MatF32(last.data(), 1, streams.cols), first + rows - 1);
  return {};
}

Result<std::vector<TokenId>> Drafter::propose(TokenId token, int n) {
  std::vector<TokenId> out;
  n = std::min({n, kMaxWindow - 1, sequence_.room() - 1});
  if (!residual_at_ || *residual_at_ + 1 != sequence_.length() || n <= 0) return out;
  MatF32 wide(residual_.data(), 1, static_cast<int>(residual_.size()));
  for (int i = 0; i < n; ++i) {
    RETURN_IF_ERROR(forward_.draft(sequence_, *residual_at_ + i, std::span(&token, 1), wide));
    wide = forward_.activations().streams.rows_from(0, 1);
    const MatF32 logits = forward_.draft_logits(0, 1);
    token = TokenId(static_cast<int32_t>(std::max_element(logits.data, logits.data + logits.cols) - logits.data));
    out.push_back(token);
  }
  return out;
}

}  // namespace strata
