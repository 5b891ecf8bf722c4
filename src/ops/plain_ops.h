// The plain twin: every operation as short loops that read like the formulas, one row after another. It is the judge of
// the fast implementations and runs the model as `--device plain`. Rows of both roles use the same float32 arithmetic,
// so a prompt equals decoding bit for bit. Weights are decoded a row at a time, once per call. Temporaries are
// allocated by each call; scratch_bytes bounds them.
#pragma once

#include "ops/ops.h"

namespace strata {

class PlainOps final : public Ops {
 public:
  const char* name() const override { return "plain"; }
  const char* isa() const override { return "none"; }
  Memory& memory() override { return memory_; }
  Status reserve(const OpsShapes& shapes) override;
  size_t scratch_bytes(const OpsShapes& shapes) const override;

  // plain_linear.cpp
  void embed(const Weight& table, std::span<const TokenId> ids, std::span<const float* const> embeddings,
             MatF32 streams, int n_streams) override;
  void linear(std::span<const Weight> ws, MatF32 x, std::span<const MatF32> ys, RowRole role) override;
  void head(const Weight& w, MatF32 x, std::span<const int> rows, MatF32 logits) override;

  // plain_hyper.cpp
  void hyper_step(MatF32 streams, const SublayerOutput& previous, const HyperWeights& next, HyperRead out) override;
  void hyper_flush(MatF32 streams, const SublayerOutput& previous) override;

  // plain_mixers.cpp
  void gdn_mix(const GdnWeights& w, int ordinal, const GdnInputs& in, std::span<const Segment> segments,
               MatF32 out) override;
  void settle(std::span<const GdnWeights* const> layers, SequenceView& sequence) override;

  // plain_attention.cpp, plain_indexer.cpp
  void attention_prepare(const QsaWeights& w, int ordinal, const QsaInputs& in, std::span<const Pos3> positions,
                         std::span<const Segment> segments, Queries out) override;
  void select_blocks(const QsaWeights& w, int ordinal, const Queries& q, std::span<const Segment> segments,
                     Selection out) override;
  void sparse_attention(const QsaWeights& w, int ordinal, const Queries& q, const Selection& selection,
                        std::span<const Segment> segments, MatF32 out) override;

  // plain_ngram.cpp
  void ngram_inject(const PleWeights& w, const NgramRows& rows, std::span<const Segment> segments, MatF32 streams,
                    RowRole role) override;

  // plain_draft.cpp
  void draft_inputs(const DraftWeights& w, std::span<const TokenId> next, MatF32 wide, MatF32 out) override;

  // plain_experts.cpp
  void route(const Weight& router, MatF32 x, Routed out) override;
  void weigh(const Weight& router, MatF32 x, Routed chosen) override;
  void experts(const ExpertLayer& layer, MatF32 x, const Routed& routed, MatF32 y, RowRole role) override;

 private:
  HostMemory memory_;
};

}  // namespace strata
