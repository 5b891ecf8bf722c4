// The weights of each sub-layer as the operations read them: matrices where they lie, small tensors as float32 arrays,
// and the geometry that belongs to them. Plain data; filled by model/weights, read by every implementation of
// ops/ops.h.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace strata {

// Read of the residual streams before a sub-layer. D = d_model, S = streams, R = low rank.
struct HyperWeights {
  const float* norm = nullptr;  // [S, D]
  Weight down;                  // [R, S*D]
  Weight up;                    // [S*D, R]
  Weight inject;                // [S, S*D]; empty in a final read, which has no write after it
  int streams = 0, d_model = 0, rank = 0;
  float eps = 0;
};

// Gated delta net: K heads of width k_dim, V heads of width v_dim; V head t uses K head t % k_heads.
struct GdnWeights {
  Weight qkv;                      // [channels, D], rows: q | k | v
  Weight gate, beta, alpha;        // [v_heads*v_dim, D], [v_heads, D], [v_heads, D]
  Weight out;                      // [D, v_heads*v_dim]
  const float* conv = nullptr;     // [channels, conv_kernel], last tap is the current row
  const float* dt_bias = nullptr;  // [v_heads]
  const float* a = nullptr;        // [v_heads], -exp(A_log)
  const float* norm = nullptr;     // [v_dim]
  int k_heads = 0, v_heads = 0, k_dim = 0, v_dim = 0, conv_kernel = 0;
  float eps = 0;

  int channels() const { return 2 * k_heads * k_dim + v_heads * v_dim; }
  int value_width() const { return v_heads * v_dim; }
};

// Partial rotation of the first 2 * inv_freq.size() dims in pairs (i, i + n): angle = position[axis[i]] * inv_freq[i].
struct Rope {
  std::vector<float> inv_freq;
  std::vector<uint8_t> axis;  // 0 = t, 1 = h, 2 = w
};

// Sparse attention with its block indexer.
struct QsaWeights {
  Weight q;                       // [heads * 2*head_dim, D]: per head query, then gate
  Weight k, v;                    // [kv_heads*head_dim, D], [kv_heads*value_dim, D]
  Weight out;                     // [D, heads*value_dim]
  Weight index_q, index_k;        // [index_heads*index_dim, D], [index_dim, D]
  const float* q_norm = nullptr;  // [head_dim]
  const float* k_norm = nullptr;
  const float* index_q_norm = nullptr;  // [index_dim]
  const float* index_k_norm = nullptr;
  Rope rope;
  int heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0, index_heads = 0, index_dim = 0;
  int block_tokens = 0;   // tokens per selectable block
  int budget_blocks = 0;  // blocks a query may select; 0: dense attention without an indexer
  float scale = 0;        // of q.k before the softmax
  float eps = 0;
};

// Injection of n-gram rows into the streams. The dilated causal convolution reaches back (conv_kernel-1)*dilation rows.
struct PleWeights {
  Weight key;                       // [S*D, E], E = width of the concatenated table rows
  Weight value;                     // [D, E]
  const float* norm_key = nullptr;  // [S, D]
  const float* norm_query = nullptr;
  const float* norm_conv = nullptr;
  const float* conv = nullptr;  // [S*D, conv_kernel], last tap is the current row
  int streams = 0, d_model = 0, conv_kernel = 0, dilation = 0;
  float eps = 0;

  int history_rows() const { return (conv_kernel - 1) * dilation; }
};

// Entry of the draft head: fuses a row's wide residual with the embedding of the token that follows it.
struct DraftWeights {
  Weight embed;                        // [vocab, D]
  const float* embed_norm = nullptr;   // [D]
  const float* hidden_norm = nullptr;  // [S, D], over one root mean square of all streams
  Weight proj;                         // [D, 2D]: embedding columns first
  int streams = 0, d_model = 0;
  float eps = 0;
};

// A gated feed-forward of any width: down( silu(gate x) * (up x) ).
struct FfnWeights {
  Weight gate, up;  // [width, D]
  Weight down;      // [D, width]
};

// Where the three matrices of one routed expert are now; shapes and types are those of its layer.
struct ExpertRef {
  const std::byte* gate = nullptr;
  const std::byte* up = nullptr;
  const std::byte* down = nullptr;
  float gate_scale = 1, up_scale = 1, down_scale = 1;  // external factors of NVFP4 experts
};

// What the operation `experts` may know of a layer: the table is owned by experts/store and changes only between steps.
struct ExpertLayer {
  const ExpertRef* table = nullptr;  // [n_experts]
  int n_experts = 0, n_used = 0;
  int d_model = 0, width = 0;
  DType gate_type = DType::F32, up_type = DType::F32, down_type = DType::F32;
  FfnWeights shared;
  Weight shared_gate;  // [1, D]: how much of the shared expert is added

  FfnWeights expert(int id) const {
    const ExpertRef& e = table[id];
    return {{gate_type, d_model, width, e.gate, e.gate_scale},
            {up_type, d_model, width, e.up, e.up_scale},
            {down_type, width, d_model, e.down, e.down_scale}};
  }
};

}  // namespace strata
