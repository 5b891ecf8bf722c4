// A batch: rows of one or more sequences that go through the model together, and the memory their activations use.
// Decoding, verification and prompt reading differ only in what the rows are.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "layers/routing_tap.h"
#include "model/weights.h"
#include "ops/ops.h"

namespace strata {

inline constexpr int kLogitRows = 64;  // rows of logits computed at a time

struct Batch {
  std::vector<TokenId> tokens;           // [rows]
  std::vector<Pos3> positions;           // [rows]
  std::vector<const float*> embeddings;  // [rows]; null: the token's own
  std::vector<uint64_t> ngram_rows;      // [rows, ngram heads]
  std::vector<Segment> segments;         // all of one role, rows in order
  RowRole role = RowRole::prompt;
  RoutingTap* routing = nullptr;  // of a batch of the trunk; null: the router alone decides

  int rows() const { return static_cast<int>(tokens.size()); }
  void clear();
};

// Every intermediate result of a step, carved once for the largest batch; `resize` cuts the views to the rows at hand.
class Activations {
 public:
  static size_t bytes(const ModelConfig& config, int max_rows, int max_context);
  static Result<std::unique_ptr<Activations>> create(Memory& memory, const ModelConfig& config, int max_rows,
                                                     int max_context);

  void resize(int rows);

  MatF32 streams;                    // [rows, S*D]: the wide residual
  MatF32 x, y;                       // [rows, D]
  std::array<MatF32, 2> gains;       // [rows, S]: of the two hyper steps of a block
  MatF32 qkv, gate, beta, alpha;     // delta net
  MatF32 q, k, v, index_q, index_k;  // attention projections
  Queries queries;
  Selection selection;
  MatF32 mixed;  // [rows, mixer output]
  Routed routed;
  MatF32 draft_inputs;  // [rows*S, 2D]; empty without a draft head
  MatF32 logits;        // [kLogitRows, vocab]

 private:
  class Carver;
  void carve(Carver& carver, const ModelConfig& config, int max_rows, int max_context);

  Arena arena_;
  int max_rows_ = 0;
};

}  // namespace strata
