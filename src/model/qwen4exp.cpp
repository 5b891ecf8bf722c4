// The one file that knows the architecture `qwen4exp`: its keys, its tensor names, its order of layers.
// Geometry comes from the file alone; every number is checked against sane bounds before anything is sized by it.
#include <algorithm>
#include <cmath>

#include "model/architecture.h"
#include "ops/memory.h"

namespace strata {
namespace {

// Typed look-ups that remember the first failure, so that a geometry reads like a table.
class Keys {
 public:
  explicit Keys(const Gguf& file) : file_(file) {}

  int integer(const std::string& key, int64_t min, int64_t max) {
    const auto v = file_.get_int(full(key), min, max);
    if (!v.ok()) return fail(v.status()), static_cast<int>(min);
    return static_cast<int>(*v);
  }
  int integer_or(const std::string& key, int64_t min, int64_t max, int fallback) {
    return has(key) ? integer(key, min, max) : fallback;
  }
  double number(const std::string& key, double min, double max) {
    const auto v = file_.get_number(full(key));
    if (!v.ok()) return fail(v.status()), min;
    if (!(*v >= min && *v <= max)) {
      require(false, fmt::format("{} is {}, expected {} to {}", full(key), *v, min, max));
      return min;
    }
    return *v;
  }
  std::vector<int64_t> integers(const std::string& key) {
    const auto v = file_.get_int_array(full(key));
    if (!v.ok()) return fail(v.status()), std::vector<int64_t>{};
    return *v;
  }
  std::vector<uint64_t> unsigneds(const std::string& key, size_t count) {
    auto v = file_.get_u64_array(full(key));
    if (!v.ok()) return fail(v.status()), std::vector<uint64_t>(count, 1);
    require(v->size() == count, fmt::format("{} has {} entries, expected {}", full(key), v->size(), count));
    v->resize(count, 1);
    return *v;
  }
  bool has(const std::string& key) const { return file_.find(full(key)) != nullptr; }
  void require(bool condition, const std::string& otherwise) {
    if (!condition) fail(Status(Code::corrupt, fmt::format("{}: {}", file_.file_name(), otherwise)));
  }
  const Status& status() const { return status_; }

 private:
  static std::string full(const std::string& key) { return "qwen4exp." + key; }
  // Whatever is wrong with a key, it is the file that is wrong.
  void fail(const Status& status) {
    if (status_.ok())
      status_ = Status(Code::corrupt, status.message(), "the file is damaged, or made for something else");
  }

  const Gguf& file_;
  Status status_;
};

std::string block_prefix(size_t block) {
  return fmt::format("blk.{}.", block);
}

// Experts, used experts and widths of one block: the tensors say, the keys only where a tensor is absent.
void read_experts(Keys& keys, const Gguf& file, size_t block, BlockConfig& out) {
  const std::string prefix = block_prefix(block);
  const auto dim = [&](const std::string& name, size_t axis, int fallback) {
    const GgufTensor* t = file.find_tensor(prefix + name);
    if (t == nullptr) return fallback;
    keys.require(t->shape.ne[axis] <= 1 << 20, fmt::format("{} is {}", t->name, t->shape.text()));
    return static_cast<int>(std::min<int64_t>(t->shape.ne[axis], 1 << 20));
  };
  out.n_experts = dim("ffn_gate_inp.weight", 1, keys.integer_or("expert_count", 1, 1 << 16, 1));
  out.expert_width = dim("ffn_down_exps.weight", 0, keys.integer_or("expert_feed_forward_length", 1, 1 << 20, 1));
  out.shared_width =
      dim("ffn_down_shexp.weight", 0, keys.integer_or("expert_shared_feed_forward_length", 1, 1 << 20, 1));
  out.n_experts_used = keys.integer("expert_used_count", 1, 1 << 16);
  keys.require(out.n_experts_used <= out.n_experts,
               fmt::format("block {} uses {} of {} experts", block, out.n_experts_used, out.n_experts));
}

void read_attention(Keys& keys, ModelConfig& c) {
  c.heads = keys.integer("attention.head_count", 1, 4096);
  c.kv_heads = keys.integer("attention.head_count_kv", 1, 4096);
  c.head_dim = keys.integer("attention.key_length", 2, 4096);
  const int value_dim = keys.integer("attention.value_length", 2, 4096);
  keys.require(value_dim == c.head_dim,
               fmt::format("value_length {} differs from key_length {}", value_dim, c.head_dim));
  keys.require(c.heads % c.kv_heads == 0,
               fmt::format("{} heads do not divide among {} key heads", c.heads, c.kv_heads));
  c.rope_dims = keys.integer("rope.dimension_count", 2, 4096);
  c.rope_base = keys.number("rope.freq_base", 1.0, 1e12);
  keys.require(c.rope_dims % 2 == 0 && c.rope_dims <= c.head_dim,
               fmt::format("rope.dimension_count is {}", c.rope_dims));
  c.rope_sections = {c.rope_dims / 2, 0, 0};
  if (keys.has("rope.dimension_sections")) {
    const auto sections = keys.integers("rope.dimension_sections");
    keys.require(sections.size() == 3 || sections.size() == 4,
                 fmt::format("qwen4exp.rope.dimension_sections has {} entries, expected 3 or 4", sections.size()));
    for (size_t i = 0; i < std::min<size_t>(3, sections.size()); ++i) {
      keys.require(sections[i] >= 0 && sections[i] <= c.rope_dims / 2,
                   "qwen4exp.rope.dimension_sections is out of range");
      c.rope_sections[i] = static_cast<int>(std::clamp<int64_t>(sections[i], 0, c.rope_dims / 2));
    }
  }
}

// Which blocks attend: an explicit list, or every interval-th block; and how many tokens an indexer block holds.
void read_layers(Keys& keys, const Gguf& file, size_t n_blocks, ModelConfig& c) {
  std::vector<int64_t> recurrent, ratios;
  if (keys.has("attention.recurrent_layers")) recurrent = keys.integers("attention.recurrent_layers");
  if (keys.has("attention.compress_ratios")) ratios = keys.integers("attention.compress_ratios");
  const int interval = keys.integer_or("full_attention_interval", 1, 512, 4);
  keys.require(recurrent.empty() || recurrent.size() >= n_blocks,
               "attention.recurrent_layers is shorter than block_count");
  keys.require(ratios.empty() || ratios.size() >= n_blocks, "attention.compress_ratios is shorter than block_count");
  if (!keys.status().ok()) return;
  for (size_t i = 0; i < n_blocks; ++i) {
    BlockConfig b;
    const bool attends = recurrent.empty() ? (i + 1) % static_cast<size_t>(interval) == 0 : recurrent[i] == 0;
    b.mixer = attends ? Mixer::attention : Mixer::delta_net;
    b.ordinal = attends ? c.n_attention++ : c.n_delta_net++;
    if (attends && !ratios.empty()) {
      keys.require(ratios[i] >= 0 && ratios[i] <= kPageTokens,
                   fmt::format("qwen4exp.attention.compress_ratios has {}, expected 0 to {}", ratios[i], kPageTokens));
      const auto ratio = static_cast<int>(std::clamp<int64_t>(ratios[i], 0, kPageTokens));
      keys.require(c.n_attention == 1 || c.block_tokens == ratio, "attention.compress_ratios differ between layers");
      c.block_tokens = ratio;
    }
    read_experts(keys, file, i, b);
    c.blocks.push_back(b);
  }
  if (ratios.empty()) c.block_tokens = 4;
  if (c.n_attention == 0) c.block_tokens = 0;
  if (c.block_tokens == 0) return;
  keys.require(kPageTokens % c.block_tokens == 0,
               fmt::format("attention.compress_ratios is {}, expected a divisor of {}", c.block_tokens, kPageTokens));
  c.index_heads = keys.integer("attention.indexer.head_count", 1, 1024);
  c.index_dim = keys.integer("attention.indexer.key_length", 2, 4096);
  c.index_budget = keys.integer("attention.indexer.top_k", c.block_tokens, 1 << 24);
  keys.require(c.index_dim >= c.rope_dims,
               fmt::format("indexer keys of {} are shorter than the {} rotated dims", c.index_dim, c.rope_dims));
}

void read_delta_net(Keys& keys, ModelConfig& c) {
  if (c.n_delta_net == 0) return;
  c.gdn_conv_kernel = keys.integer("ssm.conv_kernel", 2, 64);
  c.gdn_k_dim = keys.integer("ssm.state_size", 1, 4096);
  c.gdn_k_heads = keys.integer("ssm.group_count", 1, 4096);
  c.gdn_v_heads = keys.integer("ssm.time_step_rank", 1, 4096);
  const int inner = keys.integer("ssm.inner_size", 1, 1 << 22);
  keys.require(c.gdn_v_heads % c.gdn_k_heads == 0,
               fmt::format("{} value heads do not divide among {} key heads", c.gdn_v_heads, c.gdn_k_heads));
  keys.require(inner % c.gdn_v_heads == 0,
               fmt::format("ssm.inner_size {} is no multiple of {} heads", inner, c.gdn_v_heads));
  c.gdn_v_dim = inner / c.gdn_v_heads;
}

void read_ngrams(Keys& keys, const Gguf& file, ModelConfig& c) {
  if (!keys.has("ple.layers")) return;
  const auto layers = keys.integers("ple.layers");
  keys.require(layers.size() == 1, fmt::format("qwen4exp.ple.layers has {} entries, expected 1", layers.size()));
  if (!keys.status().ok()) return;
  keys.require(layers[0] >= 0 && static_cast<size_t>(layers[0]) < c.blocks.size(),
               fmt::format("qwen4exp.ple.layers names block {} of {}", layers[0], c.blocks.size()));
  if (!keys.status().ok()) return;
  c.blocks[static_cast<size_t>(layers[0])].ngram = true;
  c.has_ngrams = true;
  NgramConfig& n = c.ngram;
  n.size = keys.integer("ple.ngram_size", 2, 16);
  n.heads_per_size = keys.integer("ple.heads_per_ngram", 1, 256);
  n.conv_kernel = keys.integer("ple.conv_kernel", 2, 64);
  n.row_width = keys.integer("embedding_length_per_layer_input", 1, 1 << 16);
  n.eos = TokenId(keys.integer("ple.eos_token_id", 0, INT32_MAX));
  const auto heads = static_cast<size_t>(n.heads_per_size * (n.size - 1));
  n.multipliers = keys.unsigneds("ple.layer_multipliers", static_cast<size_t>(n.size));
  n.head_rows = keys.unsigneds("ple.head_vocab_sizes", heads);
  n.head_offsets = keys.unsigneds("ple.head_offsets", heads);
  const GgufTensor* table = file.find_tensor("per_layer_token_embd.weight");
  keys.require(table != nullptr,
               "the n-gram table per_layer_token_embd.weight is missing: is a shard of the model absent?");
  if (table == nullptr) return;
  n.table_rows = static_cast<uint64_t>(table->shape.ne[1]);
  for (size_t h = 0; h < heads; ++h) {
    const bool fits =
        n.head_rows[h] >= 1 && n.head_rows[h] <= n.table_rows && n.head_offsets[h] <= n.table_rows - n.head_rows[h];
    keys.require(fits, fmt::format("n-gram head {}: rows {} from {} lie outside the table of {} rows", h,
                                   n.head_rows[h], n.head_offsets[h], n.table_rows));
  }
}

Result<ModelConfig> read_config(const Gguf& file) {
  Keys keys(file);
  ModelConfig c;
  c.architecture = "qwen4exp";
  if (const auto name = file.get_string("general.name"); name.ok()) c.name = std::string(*name);
  const int n_draft = keys.integer_or("nextn_predict_layers", 0, 1, 0);
  const int n_blocks = keys.integer("block_count", 1, 512) - n_draft;
  keys.require(n_blocks >= 1, "qwen4exp.block_count counts no trunk block");
  c.context_length = keys.integer("context_length", 1, 1 << 24);
  c.d_model = keys.integer("embedding_length", 1, 1 << 16);
  c.eps = static_cast<float>(keys.number("attention.layer_norm_rms_epsilon", 0.0, 1.0));
  c.streams = keys.integer("hyper_connection.count", 2, 64);
  c.hyper_rank = keys.integer("hyper_connection.low_rank", 1, 1 << 16);
  if (!keys.status().ok()) return keys.status();
  read_attention(keys, c);
  if (keys.status().ok()) read_layers(keys, file, static_cast<size_t>(n_blocks), c);
  if (keys.status().ok()) read_delta_net(keys, c);
  if (keys.status().ok()) read_ngrams(keys, file, c);
  const GgufTensor* embed = file.find_tensor("token_embd.weight");
  keys.require(embed != nullptr, "token_embd.weight is missing: is this a draft head or another part of a model?");
  if (!keys.status().ok()) return keys.status();
  keys.require(embed->shape.ne[1] >= 1 && embed->shape.ne[1] <= 1 << 24,
               fmt::format("token_embd.weight is {}", embed->shape.text()));
  c.vocab = static_cast<int>(std::min<int64_t>(embed->shape.ne[1], 1 << 24));
  if (!keys.status().ok()) return keys.status();
  return c;
}

HyperWeights bind_hyper(TensorBinder& b, const std::string& prefix, const ModelConfig& c, bool writes) {
  HyperWeights h;
  h.streams = c.streams, h.d_model = c.d_model, h.rank = c.hyper_rank, h.eps = c.eps;
  h.norm = b.floats(prefix + "_norm.weight", c.wide());
  h.down = b.matrix(prefix + "_down.weight", c.wide(), c.hyper_rank);
  h.up = b.matrix(prefix + "_up.weight", c.hyper_rank, c.wide());
  if (writes) h.inject = b.matrix(prefix + "_inject.weight", c.wide(), c.streams);
  return h;
}

GdnWeights bind_gdn(TensorBinder& b, const std::string& p, const ModelConfig& c) {
  GdnWeights w;
  w.k_heads = c.gdn_k_heads, w.v_heads = c.gdn_v_heads, w.k_dim = c.gdn_k_dim, w.v_dim = c.gdn_v_dim;
  w.conv_kernel = c.gdn_conv_kernel, w.eps = c.eps;
  w.qkv = b.matrix(p + "attn_qkv.weight", c.d_model, w.channels());
  w.gate = b.matrix(p + "attn_gate.weight", c.d_model, w.value_width());
  w.beta = b.matrix(p + "ssm_beta.weight", c.d_model, w.v_heads);
  w.alpha = b.matrix(p + "ssm_alpha.weight", c.d_model, w.v_heads);
  w.out = b.matrix(p + "ssm_out.weight", w.value_width(), c.d_model);
  w.conv = b.float_rows(p + "ssm_conv1d.weight", w.conv_kernel, w.channels());
  w.dt_bias = b.floats(p + "ssm_dt.bias", w.v_heads);
  w.a = b.floats(p + "ssm_a", w.v_heads);
  w.norm = b.floats(p + "ssm_norm.weight", w.v_dim);
  return w;
}

// Interleaved three-axis rotation: pair i turns with height when i % 3 == 1, width when i % 3 == 2, as far as their
// sections reach, else with time.
Rope make_rope(const ModelConfig& c) {
  Rope rope;
  for (int i = 0; i < c.rope_dims / 2; ++i) {
    rope.inv_freq.push_back(static_cast<float>(1.0 / std::pow(c.rope_base, 2.0 * i / c.rope_dims)));
    const bool h = i % 3 == 1 && i < 3 * c.rope_sections[1];
    const bool w = i % 3 == 2 && i < 3 * c.rope_sections[2];
    rope.axis.push_back(h ? 1 : w ? 2 : 0);
  }
  return rope;
}

QsaWeights bind_attention(TensorBinder& b, const std::string& p, const ModelConfig& c, bool indexed) {
  QsaWeights w;
  w.heads = c.heads, w.kv_heads = c.kv_heads, w.head_dim = c.head_dim, w.value_dim = c.head_dim, w.eps = c.eps;
  w.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
  w.rope = make_rope(c);
  w.q = b.matrix(p + "attn_q.weight", c.d_model, int64_t{2} * c.heads * c.head_dim);
  w.k = b.matrix(p + "attn_k.weight", c.d_model, int64_t{1} * c.kv_heads * c.head_dim);
  w.v = b.matrix(p + "attn_v.weight", c.d_model, int64_t{1} * c.kv_heads * c.head_dim);
  w.out = b.matrix(p + "attn_output.weight", int64_t{1} * c.heads * c.head_dim, c.d_model);
  w.q_norm = b.floats(p + "attn_q_norm.weight", c.head_dim);
  w.k_norm = b.floats(p + "attn_k_norm.weight", c.head_dim);
  if (!indexed) return w;
  w.index_heads = c.index_heads, w.index_dim = c.index_dim;
  w.block_tokens = c.block_tokens, w.budget_blocks = c.index_budget / c.block_tokens;
  w.index_q = b.matrix(p + "indexer.q_proj.weight", c.d_model, int64_t{1} * c.index_heads * c.index_dim);
  w.index_k = b.matrix(p + "indexer.k_proj.weight", c.d_model, c.index_dim);
  w.index_q_norm = b.floats(p + "indexer.q_norm.weight", c.index_dim);
  w.index_k_norm = b.floats(p + "indexer.k_norm.weight", c.index_dim);
  return w;
}

PleWeights bind_ngrams(TensorBinder& b, const std::string& p, const ModelConfig& c) {
  PleWeights w;
  const int64_t width = int64_t{c.ngram.heads()} * c.ngram.row_width;
  w.streams = c.streams, w.d_model = c.d_model, w.eps = c.eps;
  w.conv_kernel = c.ngram.conv_kernel, w.dilation = c.ngram.dilation();
  w.key = b.matrix(p + "ple_key.weight", width, c.wide());
  w.value = b.matrix(p + "ple_value.weight", width, c.d_model);
  w.norm_key = b.floats(p + "ple_norm_key.weight", c.wide());
  w.norm_query = b.floats(p + "ple_norm_query.weight", c.wide());
  w.norm_conv = b.floats(p + "ple_norm_conv.weight", c.wide());
  w.conv = b.float_rows(p + "ple_conv1d.weight", w.conv_kernel, c.wide());
  return w;
}

// Gate and up as two stacks, or one fused stack whose experts hold the gate rows, then the up rows.
void bind_expert_stacks(TensorBinder& b, const std::string& p, const ModelConfig& c, Block& block) {
  const BlockConfig& bc = block.config;
  const std::string fused = p + "ffn_gate_up_exps.weight";
  if (b.has(fused)) {
    const ExpertTensors::Part both = b.experts(fused, c.d_model, int64_t{2} * bc.expert_width, bc.n_experts);
    block.experts.gate = block.experts.up = both;
    if (both.data != nullptr) block.experts.up.data += both.stride / 2;
  } else {
    block.experts.gate = b.experts(p + "ffn_gate_exps.weight", c.d_model, bc.expert_width, bc.n_experts);
    block.experts.up = b.experts(p + "ffn_up_exps.weight", c.d_model, bc.expert_width, bc.n_experts);
  }
  block.experts.down = b.experts(p + "ffn_down_exps.weight", bc.expert_width, c.d_model, bc.n_experts);
}

void bind_block(TensorBinder& b, size_t index, const ModelConfig& c, bool indexed, Block& block) {
  const std::string p = block_prefix(index);
  const BlockConfig& bc = block.config;
  block.attn_hyper = bind_hyper(b, p + "hc_attn", c, true);
  block.ffn_hyper = bind_hyper(b, p + "hc_ffn", c, true);
  if (bc.mixer == Mixer::delta_net) block.gdn = bind_gdn(b, p, c);
  if (bc.mixer == Mixer::attention) block.attention = bind_attention(b, p, c, indexed);
  if (bc.ngram) block.ngram = bind_ngrams(b, p, c);
  block.router = b.matrix(p + "ffn_gate_inp.weight", c.d_model, bc.n_experts);
  bind_expert_stacks(b, p, c, block);
  block.shared = {b.matrix(p + "ffn_gate_shexp.weight", c.d_model, bc.shared_width),
                  b.matrix(p + "ffn_up_shexp.weight", c.d_model, bc.shared_width),
                  b.matrix(p + "ffn_down_shexp.weight", bc.shared_width, c.d_model)};
  block.shared_gate = b.matrix(p + "ffn_gate_inp_shexp.weight", c.d_model, 1);
}

void bind(TensorBinder& b, Model& model) {
  const ModelConfig& c = model.config;
  model.embed = b.matrix("token_embd.weight", c.d_model, c.vocab);
  model.head = b.has("output.weight") ? b.matrix("output.weight", c.d_model, c.vocab) : model.embed;
  model.output_hyper = bind_hyper(b, "output_hc", c, false);
  if (c.has_ngrams) {
    model.ngram_table =
        b.matrix("per_layer_token_embd.weight", c.ngram.row_width, static_cast<int64_t>(c.ngram.table_rows));
  }
  for (size_t i = 0; i < c.blocks.size(); ++i) {
    Block& block = model.blocks.emplace_back();
    block.config = c.blocks[i];
    bind_block(b, i, c, c.block_tokens > 0, block);
  }
}

bool has_draft(const Gguf& file) {
  const auto n = file.get_int("qwen4exp.nextn_predict_layers", 1, 1);
  return n.ok();
}

Status read_draft_config(const Gguf& file, ModelConfig& c) {
  Keys keys(file);
  const int n_blocks = keys.integer("block_count", 1, 512);
  keys.integer("nextn_predict_layers", 1, 1);
  keys.require(static_cast<size_t>(n_blocks) == c.blocks.size() + 1,
               fmt::format("the draft head is block {}, the model has {} blocks", n_blocks - 1, c.blocks.size()));
  const std::pair<const char*, int> same[] = {
      {"embedding_length", c.d_model},         {"attention.head_count", c.heads},
      {"attention.head_count_kv", c.kv_heads}, {"attention.key_length", c.head_dim},
      {"attention.value_length", c.head_dim},  {"rope.dimension_count", c.rope_dims},
      {"hyper_connection.count", c.streams},   {"hyper_connection.low_rank", c.hyper_rank},
  };
  for (const auto& [key, value] : same) {
    const int found = keys.integer(key, 1, INT32_MAX);
    keys.require(found == value, fmt::format("the draft head's {} is {}, the model's {}", key, found, value));
  }
  const double base = keys.number("rope.freq_base", 1.0, 1e12);
  keys.require(base == c.rope_base,
               fmt::format("the draft head's rope.freq_base is {}, the model's {}", base, c.rope_base));
  c.draft.mixer = Mixer::attention;
  c.draft.ordinal = c.n_attention;
  read_experts(keys, file, c.blocks.size(), c.draft);
  c.has_draft_head = keys.status().ok();
  return keys.status();
}

// Files that keep the two halves of the entry projection apart: joined row by row, embedding columns first.
Weight join_projections(TensorBinder& b, const std::string& n, Model& model) {
  const int64_t d = model.config.d_model;
  const Weight left = b.matrix(n + "embed_proj.weight", d, d), right = b.matrix(n + "hidden_proj.weight", d, d);
  if (!left || !right) return {};
  const bool alike = left.type == right.type && left.scale == right.scale;
  b.require(alike, n + "embed_proj and hidden_proj differ in type");
  if (!alike) return {};
  const size_t bytes = row_bytes(left.type, d);
  std::vector<std::byte>& joined = model.copies.emplace_back(2 * left.bytes());
  model.float_bytes += joined.size();
  for (int64_t r = 0; r < d; ++r) {
    std::copy_n(left.row(r), bytes, joined.data() + 2 * bytes * static_cast<size_t>(r));
    std::copy_n(right.row(r), bytes, joined.data() + 2 * bytes * static_cast<size_t>(r) + bytes);
  }
  return {left.type, 2 * d, d, joined.data(), left.scale, Place::host};
}

void bind_draft(TensorBinder& b, Model& model, DraftHead& draft) {
  const ModelConfig& c = model.config;
  const std::string p = block_prefix(c.blocks.size()), n = p + "nextn.";
  draft.block.config = c.draft;
  bind_block(b, c.blocks.size(), c, false, draft.block);  // attends densely: a superset of what it was trained with
  for (const char* part : {"q_proj", "k_proj", "q_norm", "k_norm"}) b.ignore(p + "indexer." + part + ".weight");
  DraftWeights& e = draft.entry;
  e.streams = c.streams, e.d_model = c.d_model, e.eps = c.eps;
  e.embed_norm = b.floats(n + "enorm.weight", c.d_model);
  e.hidden_norm = b.floats(n + "hnorm.weight", c.wide());
  e.proj = b.has(n + "embed_proj.weight") ? join_projections(b, n, model)
                                          : b.matrix(n + "eh_proj.weight", int64_t{2} * c.d_model, c.d_model);
  draft.head_hyper = bind_hyper(b, n + "hc_head", c, false);
  // Its own tables when the file has them under either name, else the trunk's.
  const auto own = [&](const std::string& plain, const std::string& nested, const Weight& trunk) {
    for (const std::string& name : {plain, n + nested}) {
      if (b.has(name)) return b.matrix(name, c.d_model, c.vocab);
    }
    return trunk;
  };
  e.embed = own("token_embd.weight", "embed_tokens.weight", model.embed);
  draft.head = own("output.weight", "shared_head_head.weight", model.head);
}

}  // namespace

const Architecture kQwen4Exp{"qwen4exp", read_config, bind, has_draft, read_draft_config, bind_draft};

}  // namespace strata
