// Geometry of a model as plain data: everything the file says about shapes, nothing about where weights lie.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace strata {

enum class Mixer : uint8_t { delta_net, attention };

struct BlockConfig {
  Mixer mixer = Mixer::delta_net;
  int ordinal = 0;     // among the blocks of its kind
  bool ngram = false;  // n-gram injection before the block's first read
  int n_experts = 0, n_experts_used = 0, expert_width = 0, shared_width = 0;
};

struct NgramConfig {
  int size = 0;  // longest n-gram, counting the current token
  int heads_per_size = 0;
  int conv_kernel = 0;
  int row_width = 0;                   // values of one table row
  TokenId eos;                         // cuts the context
  std::vector<uint64_t> multipliers;   // [size]
  std::vector<uint64_t> head_rows;     // [heads]: modulus of each head
  std::vector<uint64_t> head_offsets;  // [heads]: first table row of each head
  uint64_t table_rows = 0;

  int heads() const { return static_cast<int>(head_rows.size()); }
  int dilation() const { return size; }
};

struct ModelConfig {
  std::string architecture;
  std::string name;
  int vocab = 0, d_model = 0, context_length = 0;
  float eps = 0;
  int streams = 0, hyper_rank = 0;
  int heads = 0, kv_heads = 0, head_dim = 0;
  int rope_dims = 0;
  double rope_base = 0;
  std::vector<int> rope_sections;  // [3]: pairs of t, h, w
  int index_heads = 0, index_dim = 0, index_budget = 0 /* tokens */, block_tokens = 0;
  int gdn_k_heads = 0, gdn_v_heads = 0, gdn_k_dim = 0, gdn_v_dim = 0, gdn_conv_kernel = 0;
  bool has_ngrams = false;
  NgramConfig ngram;
  std::vector<BlockConfig> blocks;  // trunk blocks, in order
  int n_delta_net = 0, n_attention = 0;
  bool has_draft_head = false;
  BlockConfig draft;  // of the draft head, when present; its attention ordinal follows the trunk's

  int gdn_channels() const { return 2 * gdn_k_heads * gdn_k_dim + gdn_v_heads * gdn_v_dim; }
  int wide() const { return streams * d_model; }
};

}  // namespace strata
