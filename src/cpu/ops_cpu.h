// The operations of ops/ops.h on the cores of this machine, in portable code. Activations are float32; weights are
// decoded a tile at a time. Every operation is row-exact for both roles, so decoding, verification and prompt agree bit
// for bit, and no result depends on the number of threads or on the instruction set. After reserve nothing is
// allocated.
#pragma once

#include <memory>

#include "cpu/kernels.h"
#include "cpu/scratch.h"
#include "cpu/workshop.h"
#include "ops/ops.h"
#include "os/threads.h"

namespace strata {

class CpuOps final : public Ops {
 public:
  CpuOps(WorkerPool& pool, const Kernels& kernels) : shop_{pool, kernels} {}

  const char* name() const override { return "cpu"; }
  const char* isa() const override { return shop_.kernels.isa; }
  Memory& memory() override { return memory_; }
  Status reserve(const OpsShapes& shapes) override;
  size_t scratch_bytes(const OpsShapes& shapes) const override;

  // ops_cpu.cpp
  void embed(const Weight& table, std::span<const TokenId> ids, std::span<const float* const> embeddings,
             MatF32 streams, int n_streams) override;
  void linear(std::span<const Weight> ws, MatF32 x, std::span<const MatF32> ys, RowRole role) override;
  void head(const Weight& w, MatF32 x, std::span<const int> rows, MatF32 logits) override;

  // hyper.cpp
  void hyper_step(MatF32 streams, const SublayerOutput& previous, const HyperWeights& next, HyperRead out) override;
  void hyper_flush(MatF32 streams, const SublayerOutput& previous) override;

  // gdn.cpp
  void gdn_mix(const GdnWeights& w, int ordinal, const GdnInputs& in, std::span<const Segment> segments,
               MatF32 out) override;
  void settle(std::span<const GdnWeights* const> layers, SequenceView& sequence) override;

  // attention.cpp, indexer.cpp
  void attention_prepare(const QsaWeights& w, int ordinal, const QsaInputs& in, std::span<const Pos3> positions,
                         std::span<const Segment> segments, Queries out) override;
  void select_blocks(const QsaWeights& w, int ordinal, const Queries& q, std::span<const Segment> segments,
                     Selection out) override;
  void sparse_attention(const QsaWeights& w, int ordinal, const Queries& q, const Selection& selection,
                        std::span<const Segment> segments, MatF32 out) override;

  // ngram.cpp
  void ngram_inject(const PleWeights& w, const NgramRows& rows, std::span<const Segment> segments, MatF32 streams,
                    RowRole role) override;

  // draft.cpp
  void draft_inputs(const DraftWeights& w, std::span<const TokenId> next, MatF32 wide, MatF32 out) override;

  // experts.cpp
  void route(const Weight& router, MatF32 x, Routed out) override;
  void weigh(const Weight& router, MatF32 x, Routed chosen) override;
  void experts(const ExpertLayer& layer, MatF32 x, const Routed& routed, MatF32 y, RowRole role) override;

 private:
  RouteScratch router_logits(const Weight& router, MatF32 x, int n_used);

  HostMemory memory_;
  Buffer scratch_;
  Workshop shop_;
};

// With the kernels of that name, which must be available; "auto": the best of this processor. The pool must outlive the
// operations, which use it alone.
std::unique_ptr<Ops> make_cpu_ops(WorkerPool& pool, std::string_view isa = "auto");
size_t cpu_scratch_bytes(const OpsShapes& shapes, int n_threads);  // what reserve allocates

}  // namespace strata
