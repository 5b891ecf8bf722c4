// What each operation carves from the shared scratch and, per task, from that of a thread, as a function of the shapes
// of a call. Asked with the largest shapes and no memory, the same functions say how much to reserve.
#pragma once

#include "cpu/matmul.h"
#include "cpu/mixers.h"
#include "cpu/workshop.h"
#include "ops/ops.h"

namespace strata {

struct LinearScratch {
  const float** x;  // [rows]

  static LinearScratch carve(Carver& shared, int rows);
};

struct HyperScratch {
  MatF32 normed;              // [rows, S*D]
  MatF32 low;                 // [rows, rank]
  const float** normed_rows;  // [rows]
  const float** low_rows;     // [rows]

  static HyperScratch carve(Carver& shared, int rows, int streams, int d_model, int rank);
};

// Of a task that mixes the streams of some channels.
struct HyperTask {
  static constexpr int kChannels = 32;
  static constexpr int kRows = 64;
  DecodedBlock* tile;
  float* mix;  // [kRows, S * channels]

  static HyperTask carve(Carver& own, int streams, int rank);
};

// Of a task that runs the value heads of one key head, some rows at a time. V is v_dim in whole strips.
struct GdnTask {
  static constexpr int kRows = 32;
  float* qk;         // [kRows, 2 * k_dim]
  float* query_key;  // [kRows]
  float* v;          // [kRows, V]
  float* update;     // [kRows, V]
  float* out;        // [kRows, V]
  float* decay;      // [kRows]
  float* beta;       // [kRows]
  float* z;          // [k_dim, kDeltaStrip]: of a state
  float* part;       // [k_dim, kDeltaStrip]: of a strip that is not whole
  float* kept;       // [kMaxWindow, kDeltaStrip]: of the updates of such a strip

  static GdnTask carve(Carver& own, int k_dim, int v_dim);
};

struct AttentionScratch {
  const Segment** segment_of;  // [rows]

  static AttentionScratch carve(Carver& shared, int rows);
};

// Of a task that prepares a row.
struct PrepareTask {
  float* cosine;  // [pairs]
  float* sine;    // [pairs]
  float* key;     // [head_dim]

  static PrepareTask carve(Carver& own, int head_dim);
};

// Of a task that attends with some heads of one key head.
struct AttendTask {
  static constexpr int kPositions = 64;
  const std::byte** keys;    // [2, kPositions]: of a tile and the next one
  const std::byte** values;  // [2, kPositions]
  float* weights;            // [heads, kPositions]
  float* highest;            // [heads]
  float* total;              // [heads]
  float* rescale;            // [heads]

  static AttendTask carve(Carver& own, int heads);
};

// Of a task that selects: the scores of all blocks of some rows, and those of one row that are near its threshold.
struct SelectTask {
  static constexpr int kRows = 4;
  float* scores;   // [kRows, blocks]
  int32_t* found;  // [blocks + 1]
  float* close;    // [blocks]

  static SelectTask carve(Carver& own, int64_t blocks);
};

struct NgramScratch {
  MatF32 looked_up;  // [rows, E]
  MatF32 keys;       // [rows, S*D]; later the normed gated values
  MatF32 values;     // [rows, D]
  MatF32 gains;      // [rows, S]
  const float** x;   // [rows]

  static NgramScratch carve(Carver& shared, int rows, int width, int streams, int d_model);
};

// Of a task that gates one row, and of one that convolves it.
struct NgramTask {
  float* key;        // [D]
  float* query;      // [D]
  float* convolved;  // [S*D]

  static NgramTask carve(Carver& own, int streams, int d_model);
};

struct RouteScratch {
  MatF32 logits;    // [rows, n_experts]
  const float** x;  // [rows]

  static RouteScratch carve(Carver& shared, int rows, int n_experts);
};

// A use is a row and a rank; slots order the uses by expert, then by row. The shared expert has one slot a row, after
// them.
struct ExpertScratch {
  int32_t* first_slot;                        // [n_experts + 1]
  int32_t* active;                            // [n_experts]: experts with at least one use
  int32_t* slot_of;                           // [rows * n_used]
  const float** inputs;                       // [slots]: rows of x
  MatF32 hidden;                              // [slots, width]
  const float** hidden_rows;                  // [slots]
  float* shared_gain;                         // [rows]
  ActRoom input_room;                         // rows of x
  ActRoom hidden_room;                        // slots of routed experts
  ActRoom shared_room;                        // rows of the shared expert
  const ActBlock** input_blocks[kActOrders];  // [slots]

  static ExpertScratch carve(Carver& shared, int rows, int n_experts, int n_used, int width, int d_model);
};

// Of a task that computes some hidden values of one expert.
struct ExpertUpTask {
  static constexpr int kHidden = 16, kMaxHidden = 64;
  static constexpr int kRows = 128;
  DecodedBlock* tile;
  float* products;  // [kRows, kMaxHidden]

  static ExpertUpTask carve(Carver& own, int d_model);
};

// Of a task that computes some outputs of all experts.
struct ExpertDownTask {
  static constexpr int kOutputs = 16;
  static constexpr int kFewUses = 96, kMaxOutputs = 64;  // so many outputs for so few uses
  DecodedBlock* tile;
  float* products;  // [slots, outputs]

  static ExpertDownTask carve(Carver& own, int rows, int n_used, int width);
};

size_t shared_scratch_bytes(const OpsShapes& shapes);
size_t thread_scratch_bytes(const OpsShapes& shapes);

}  // namespace strata
