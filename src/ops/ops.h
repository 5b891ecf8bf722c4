// The arithmetic interface: every operation of the forward pass, over views, without a machine. ops/plain is the
// formula book and the oracle; cpu/ and gpu/ implement the same calls. Rows are tokens of a batch; all matrices are
// [rows, width]. "Row-exact" means: the result for a row depends only on that row (and its sequence), bit for bit,
// never on how many other rows are computed with it. Formulas: docs/model.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/ids.h"
#include "ops/memory.h"
#include "ops/state_views.h"
#include "ops/weights.h"
#include "tensor/tensor.h"

namespace strata {

// What a sub-layer adds to the residual streams: stream s of a row gets gains[s] * y.
struct SublayerOutput {
  MatF32 y;      // [rows, D]
  MatF32 gains;  // [rows, S]
  bool empty() const { return y.data == nullptr; }
};

struct HyperRead {
  MatF32 x;      // [rows, D]
  MatF32 gains;  // [rows, S]; data null for a final read
};

struct GdnInputs {
  MatF32 qkv;    // [rows, channels], before the convolution
  MatF32 gate;   // [rows, v_heads*v_dim]
  MatF32 beta;   // [rows, v_heads], before the sigmoid
  MatF32 alpha;  // [rows, v_heads], before softplus
};

struct QsaInputs {
  MatF32 q;        // [rows, heads * 2*head_dim]: query and gate of each head
  MatF32 k, v;     // [rows, kv_heads*head_dim], [rows, kv_heads*value_dim]
  MatF32 index_q;  // [rows, index_heads*index_dim]; data null without an indexer
  MatF32 index_k;  // [rows, index_dim]
};

// Prepared queries: normed and rotated.
struct Queries {
  MatF32 q;        // [rows, heads*head_dim]
  MatF32 gate;     // [rows, heads*head_dim], raw
  MatF32 index_q;  // [rows, index_heads*index_dim]
};

// Blocks that each row attends to, ascending; the tokens after the last complete block are always visible besides.
struct Selection {
  int32_t* blocks = nullptr;  // [rows, capacity]
  int32_t* count = nullptr;   // [rows]; kAll: every position up to the row's own
  int capacity = 0;
  static constexpr int32_t kAll = -1;
  int32_t* of(int row) const { return blocks + static_cast<int64_t>(row) * capacity; }
};

// The n-gram table and which of its rows each batch row needs.
struct NgramRows {
  Weight table;                   // [table rows, row width], in host memory
  const uint64_t* ids = nullptr;  // [rows, heads]
  int heads = 0;
};

struct Routed {
  int32_t* ids = nullptr;    // [rows, n_used], by descending probability; ties: lower expert first
  float* weights = nullptr;  // [rows, n_used], sum 1
  int n_used = 0;
};

// Largest shapes an implementation will meet; scratch memory is allocated from them once.
struct OpsShapes {
  int max_rows = 0;
  int d_model = 0, streams = 0, hyper_rank = 0;
  int max_linear_inputs = 0;  // widest input of any matrix
  int max_gdn_channels = 0;
  int max_heads = 0, max_head_dim = 0;
  int max_experts = 0, max_experts_used = 0, max_expert_width = 0;
  int ngram_width = 0;  // concatenated table rows of one token
  int64_t max_context = 0;
  int max_index_heads = 0, max_index_dim = 0, block_tokens = 0;
};

class Ops {
 public:
  virtual ~Ops() = default;
  virtual const char* name() const = 0;  // "plain", "cpu"
  virtual const char* isa() const = 0;   // the vector instructions it uses: "avx512"; "none" for the plain twin
  virtual Memory& memory() = 0;
  virtual Status reserve(const OpsShapes& shapes) = 0;              // once, before the first step
  virtual size_t scratch_bytes(const OpsShapes& shapes) const = 0;  // what reserve will allocate, for the memory plan

  // streams[r, s] = table[ids[r]] for every stream s; embeddings[r] replaces the table row where not null. Row-exact.
  virtual void embed(const Weight& table, std::span<const TokenId> ids, std::span<const float* const> embeddings,
                     MatF32 streams /* [rows, S*D] */, int n_streams) = 0;

  // Adds the previous sub-layer's output to the streams (unless empty), then reads them for the next one. Row-exact.
  virtual void hyper_step(MatF32 streams, const SublayerOutput& previous, const HyperWeights& next, HyperRead out) = 0;
  // Only the write, before something else touches the streams. Row-exact.
  virtual void hyper_flush(MatF32 streams, const SublayerOutput& previous) = 0;

  // ys[i] = ws[i] x for several matrices of one input. Row-exact for rows of one role.
  virtual void linear(std::span<const Weight> ws, MatF32 x, std::span<const MatF32> ys, RowRole role) = 0;

  // Convolution, gates, delta rule, norm and output gate of delta-net layer `ordinal`. Row-exact.
  virtual void gdn_mix(const GdnWeights& w, int ordinal, const GdnInputs& in, std::span<const Segment> segments,
                       MatF32 out /* [rows, v_heads*v_dim] */) = 0;

  // Norms and rotation; appends keys and values to the pages; raw and finished indexer keys. Row-exact.
  virtual void attention_prepare(const QsaWeights& w, int ordinal, const QsaInputs& in, std::span<const Pos3> positions,
                                 std::span<const Segment> segments, Queries out) = 0;
  // The best `budget_blocks` complete blocks of each row; ties: lower block. kAll where every block fits. Row-exact.
  virtual void select_blocks(const QsaWeights& w, int ordinal, const Queries& q, std::span<const Segment> segments,
                             Selection out) = 0;
  // Softmax over the selected positions, times sigmoid(gate). Row-exact.
  virtual void sparse_attention(const QsaWeights& w, int ordinal, const Queries& q, const Selection& selection,
                                std::span<const Segment> segments, MatF32 out /* [rows, heads*value_dim] */) = 0;

  // Gated n-gram values and their dilated convolution, added to the streams. Row-exact.
  virtual void ngram_inject(const PleWeights& w, const NgramRows& rows, std::span<const Segment> segments,
                            MatF32 streams, RowRole role) = 0;

  // Inputs of the draft head's projection: out[r * S + s] = rms(embed[next[r]]) * embed_norm | (rms(wide[r]) *
  // hidden_norm)[s], the second root mean square taken over all streams together. Row-exact.
  virtual void draft_inputs(const DraftWeights& w, std::span<const TokenId> next, MatF32 wide /* [rows, S*D] */,
                            MatF32 out /* [rows*S, 2D] */) = 0;

  // Router logits in float32, softmax over all experts, best n_used renormalised. Row-exact.
  virtual void route(const Weight& router, MatF32 x, Routed out) = 0;
  // Only the weights, of the experts in chosen.ids: their part of the softmax, as route would have it had it chosen
  // them. Row-exact.
  virtual void weigh(const Weight& router, MatF32 x, Routed chosen) = 0;
  // y = sum of weight * expert(x), added in rank order, then the gated shared expert. Row-exact for rows of one role.
  virtual void experts(const ExpertLayer& layer, MatF32 x, const Routed& routed, MatF32 y, RowRole role) = 0;

  // logits[i] = w x[rows[i]]. Row-exact.
  virtual void head(const Weight& w, MatF32 x, std::span<const int> rows, MatF32 logits) = 0;

  // Brings the kept rows of the log into the base states of one sequence (before a snapshot or a save).
  virtual void settle(std::span<const GdnWeights* const> layers, SequenceView& sequence) = 0;
};

std::unique_ptr<Ops> make_plain_ops();

}  // namespace strata
