#include "engine/forward.h"

#include "model/ngram_hash.h"

namespace strata {

Result<std::unique_ptr<Forward>> Forward::create(Ops& ops, std::shared_ptr<const Model> model, Store& store,
                                                 const Plan& plan) {
  std::unique_ptr<Forward> f(new Forward(ops, std::move(model), store));
  RETURN_IF_ERROR(ops.reserve(ops_shapes(f->model_->config, plan.chunk_rows, plan.max_context)));
  ASSIGN_OR_RETURN(f->activations_,
                   Activations::create(ops.memory(), f->model_->config, plan.chunk_rows, plan.max_context));
  return f;
}

void Forward::add_ngrams(const Sequence& sequence, std::span<const TokenRecord> rows) {
  const NgramConfig& n = model_->config.ngram;
  const auto known = sequence.records();
  const size_t before = std::min(known.size(), static_cast<size_t>(n.size - 1));
  window_.clear();
  for (const TokenRecord& r : known.last(before)) window_.push_back(r.token);
  const auto heads = static_cast<size_t>(n.heads());
  for (const TokenRecord& r : rows) {
    batch_.ngram_rows.resize(batch_.ngram_rows.size() + heads);
    ngram_rows(n, r.token, window_, batch_.ngram_rows.data() + batch_.ngram_rows.size() - heads);
    window_.push_back(r.token);
  }
}

Status Forward::add(const Work& work) {
  CHECK(!work.rows.empty() && work.rows.front().role == batch_.role, "all rows of a step have one role");
  if (routing_ != nullptr)
    RETURN_IF_ERROR(routing_->admit(work.sequence->length() + static_cast<Pos>(work.rows.size())));
  ASSIGN_OR_RETURN(Segment segment, work.sequence->begin(work.rows));
  segment.first_row = batch_.rows();
  batch_.segments.push_back(segment);
  if (model_->config.has_ngrams) add_ngrams(*work.sequence, work.rows);
  for (const TokenRecord& r : work.rows) {
    batch_.tokens.push_back(r.token);
    batch_.positions.push_back(r.pos);
    batch_.embeddings.push_back(nullptr);
  }
  return {};
}

Status Forward::run(std::span<const Work> work, const std::function<void(int)>& after_block) {
  CHECK(!work.empty() && !work.front().rows.empty(), "a step needs rows");
  batch_.clear();
  batch_.role = work.front().rows.front().role;
  batch_.routing = routing_;
  for (size_t i = 0; i < work.size(); ++i) {
    const Status added = add(work[i]);
    if (added.ok()) continue;
    for (size_t j = 0; j < i; ++j) work[j].sequence->abandon();
    return added;
  }
  forward_blocks(context_, batch_, *activations_, after_block);
  return {};
}

MatF32 Forward::logits(int first, int n) {
  strata::logits(context_, Head::trunk, batch_, *activations_, first, n);
  return activations_->logits.rows_from(0, n);
}

Status Forward::begin_draft(Sequence& sequence, Pos first, std::span<const TokenId> next, MatF32 wide) {
  CHECK(has_draft_head() && static_cast<size_t>(wide.rows) == next.size(), "{} residuals, {} tokens", wide.rows,
        next.size());
  ASSIGN_OR_RETURN(const Segment segment, sequence.reach(first, wide.rows));
  batch_.clear();
  batch_.role = segment.role;
  batch_.segments.push_back(segment);
  batch_.tokens.assign(next.begin(), next.end());
  for (int r = 0; r < wide.rows; ++r) {  // any constant offset from the trunk's positions is equivalent
    const int32_t at = first + r;
    batch_.positions.push_back({at, at, at});
  }
  activations_->resize(wide.rows);
  MatF32& streams = activations_->streams;
  for (int r = 0; r < wide.rows; ++r) {
    if (streams.row(r) != wide.row(r))
      context_.ops.memory().copy(streams.row(r), wide.row(r), sizeof(float) * static_cast<size_t>(wide.cols));
  }
  return {};
}

Status Forward::draft_cells(Sequence& sequence, Pos first, std::span<const TokenId> next, MatF32 wide) {
  RETURN_IF_ERROR(begin_draft(sequence, first, next, wide));
  strata::draft_cells(context_, batch_, *activations_);
  return {};
}

Status Forward::draft(Sequence& sequence, Pos first, std::span<const TokenId> next, MatF32 wide) {
  RETURN_IF_ERROR(begin_draft(sequence, first, next, wide));
  strata::draft_blocks(context_, batch_, *activations_);
  return {};
}

MatF32 Forward::draft_logits(int first, int n) {
  strata::logits(context_, Head::draft, batch_, *activations_, first, n);
  return activations_->logits.rows_from(0, n);
}

}  // namespace strata
