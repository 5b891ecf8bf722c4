// Model files of the true structure with random weights and any geometry: delta net, sparse attention,
// hyper-connections, n-gram table, experts and, on request, a draft head. A test changes keys and tensors before it
// writes the file. A tensor's random values depend on its name and the seed alone, so that editing one leaves the
// others as they were.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "quant/quantise.h"
#include "quant/random_blocks.h"
#include "quant/reference.h"
#include "temp_dir.h"
#include "tensor/gguf_writer.h"

namespace strata::testing {

struct TinyGeometry {
  int blocks = 4, interval = 4, d_model = 64, vocab = 96, context = 512;
  int streams = 2, rank = 32;
  int heads = 4, kv_heads = 2, head_dim = 16, rope_dims = 8;
  int index_heads = 2, index_dim = 16, top_k = 16, ratio = 4;  // ratio 0: no indexer
  int k_heads = 2, v_heads = 6, gdn_dim = 16, conv_kernel = 4;
  int experts = 8, used = 3, width = 32, shared_width = 64;
  int draft_experts = 0;                                                          // 0: no draft head
  int ngram_size = 3, heads_per_ngram = 2, ngram_width = 32, rows_per_head = 61;  // size 0: no n-grams
  int eos = 0;
  uint64_t seed = 1;
  DType dense = DType::Q8_0, expert_in = DType::IQ4_NL, expert_out = DType::Q4_0, small = DType::BF16;

  bool attends(int block) const { return (block + 1) % interval == 0; }
  int ngram_heads() const { return heads_per_ngram * (ngram_size - 1); }
  static TinyGeometry smallest();  // for tests that run thousands of steps
};

// Two delta-net blocks and an attention block, no draft head; a token costs some 50,000 multiplications.
inline TinyGeometry TinyGeometry::smallest() {
  TinyGeometry g;
  g.blocks = 3, g.interval = 3, g.d_model = 32, g.vocab = 32, g.context = 192, g.rank = 32;
  g.heads = 2, g.rope_dims = 8, g.index_heads = 1, g.index_dim = 8, g.top_k = 16;
  g.k_heads = 1, g.v_heads = 2, g.experts = 4, g.used = 2, g.shared_width = 32;
  g.heads_per_ngram = 1, g.rows_per_head = 31;
  g.small = DType::F32;
  return g;
}

class TinyModel {
 public:
  struct Tensor {
    std::string name;
    DType type = DType::F32;
    Shape shape;
    float rms = 0.1f, offset = 0;
    std::function<float(float)> map;  // of the random value, before the offset
    std::vector<std::byte> bytes;     // empty until asked for: then random
  };

  explicit TinyModel(const TinyGeometry& geometry = {}) : g(geometry) { build(); }

  TinyGeometry g;
  std::vector<Tensor> tensors;

  // Keys, replaced where they are known; names without the architecture's prefix get it.
  template <class T>
  void set(const std::string& key, std::type_identity_t<T> value) {
    put(key, [value](GgufWriter& w, const std::string& name) { w.set<T>(name, value); });
  }
  template <class T>
  void set_array(const std::string& key, const std::vector<std::type_identity_t<T>>& values) {
    put(key, [values](GgufWriter& w, const std::string& name) { w.set_array<T>(name, values); });
  }
  void set_text(const std::string& key, const std::string& value) {
    put(key, [value](GgufWriter& w, const std::string& name) { w.set_string(name, value); });
  }
  void erase(const std::string& key) {
    std::erase_if(keys_, [&](const auto& k) { return k.first == full(key); });
  }

  Tensor& tensor(const std::string& name) {
    for (Tensor& t : tensors) {
      if (t.name == name) return t;
    }
    ADD_FAILURE() << "no tensor " << name;
    return tensors.front();
  }
  void remove(const std::string& name) {
    const size_t n = std::erase_if(tensors, [&](const Tensor& t) { return t.name == name; });
    EXPECT_EQ(n, 1u) << name;
  }
  Tensor& add(const std::string& name, DType type, std::initializer_list<int64_t> ne, float rms = 0.1f) {
    Tensor t;
    t.name = name, t.type = type, t.rms = rms;
    t.shape.n_dims = static_cast<int>(ne.size());
    std::copy(ne.begin(), ne.end(), t.shape.ne.begin());
    return tensors.emplace_back(std::move(t));
  }
  // The tensor's bytes, to change them in place.
  std::vector<std::byte>& bytes(const std::string& name) { return filled(tensor(name)).bytes; }
  std::vector<float> values(const std::string& name);
  // Stores these values in the given type (one that can be quantised).
  void store(const std::string& name, DType type, const std::vector<float>& values) {
    encode(tensor(name), type, values);
  }
  // Another type for the same random values, as near as the type allows.
  void retype(const std::string& name, DType type) { store(name, type, values(name)); }

  void write(const std::string& path) {
    write_if(path, [](const std::string&) { return true; });
  }
  // The draft head alone, as it is published beside a trunk; the trunk is then this geometry without draft_experts.
  void write_draft(const std::string& path) {
    write_if(path, [&](const std::string& name) { return name.starts_with(block_prefix(g.blocks)); });
  }
  static std::string block_prefix(int block) { return "blk." + std::to_string(block) + "."; }

 private:
  using Put = std::function<void(GgufWriter&, const std::string&)>;

  static std::string full(const std::string& key) { return key.starts_with("general.") ? key : "qwen4exp." + key; }
  void put(const std::string& key, Put put) {
    for (auto& [name, old] : keys_) {
      if (name == full(key)) return void(old = std::move(put));
    }
    keys_.emplace_back(full(key), std::move(put));
  }
  Tensor& filled(Tensor& t);
  static void encode(Tensor& t, DType type, const std::vector<float>& values);
  void write_if(const std::string& path, const std::function<bool(const std::string&)>& wanted);

  void matrix(const std::string& name, int64_t cols, int64_t rows, DType type) {
    add(name, type, {cols, rows}, 1.0f / std::sqrt(static_cast<float>(cols)));
  }
  void vector(const std::string& name, int64_t n, float rms = 0.1f) {
    Tensor& t = add(name, DType::F32, {n}, rms);
    if (name.find("norm") != std::string::npos) t.offset = 1;
  }
  void hyper(const std::string& prefix, bool writes) {
    const int64_t wide = int64_t{1} * g.streams * g.d_model;
    vector(prefix + "_norm.weight", wide);
    matrix(prefix + "_down.weight", wide, g.rank, g.small);
    matrix(prefix + "_up.weight", g.rank, wide, g.small);
    if (writes) matrix(prefix + "_inject.weight", wide, g.streams, g.small);
  }
  void build();
  void build_keys();
  void build_ngram_keys();
  void build_attention(const std::string& p);
  void build_delta_net(const std::string& p);
  void build_ngrams(const std::string& p);
  void build_block(int index, bool attends, bool ngram, int experts);

  std::vector<std::pair<std::string, Put>> keys_;
};

inline TinyModel::Tensor& TinyModel::filled(Tensor& t) {
  if (!t.bytes.empty()) return t;
  uint64_t seed = g.seed;
  for (const char c : t.name) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  const bool special = t.offset != 0 || t.map;
  const DType type = special ? DType::F32 : t.type;
  const TypeTraits& traits_of = traits(type);
  std::vector<std::byte> raw(row_bytes(type, t.shape.ne[0]) * static_cast<size_t>(t.shape.rows()));
  random_blocks(type, seed, static_cast<int64_t>(raw.size()) / traits_of.block_bytes, raw.data(), t.rms);
  if (!special) return t.bytes = std::move(raw), t;
  std::vector<float> values(static_cast<size_t>(t.shape.elems()));
  std::copy_n(raw.data(), raw.size(), reinterpret_cast<std::byte*>(values.data()));
  for (float& v : values) v = (t.map ? t.map(v) : v) + t.offset;
  encode(t, t.type, values);
  return t;
}

inline void TinyModel::encode(Tensor& t, DType type, const std::vector<float>& values) {
  const int64_t cols = t.shape.ne[0];
  ASSERT_EQ(values.size(), static_cast<size_t>(t.shape.elems())) << t.name;
  ASSERT_TRUE(can_quantise(type) && cols % traits(type).block_elems == 0) << t.name << " as " << type_name(type);
  t.type = type;
  t.bytes.resize(row_bytes(type, cols) * static_cast<size_t>(t.shape.rows()));
  for (int64_t r = 0; r < t.shape.rows(); ++r) {
    quantise_row(type, values.data() + r * cols, cols, t.bytes.data() + static_cast<size_t>(r) * row_bytes(type, cols));
  }
}

inline std::vector<float> TinyModel::values(const std::string& name) {
  const Tensor& t = filled(tensor(name));
  const int64_t cols = t.shape.ne[0];
  std::vector<float> out(static_cast<size_t>(t.shape.elems()));
  for (int64_t r = 0; r < t.shape.rows(); ++r) {
    dequantise_row(t.type, t.bytes.data() + static_cast<size_t>(r) * row_bytes(t.type, cols), cols,
                   out.data() + r * cols);
  }
  return out;
}

inline void TinyModel::write_if(const std::string& path, const std::function<bool(const std::string&)>& wanted) {
  GgufWriter w;
  for (const auto& [name, put] : keys_) put(w, name);
  for (Tensor& t : tensors) {
    if (wanted(t.name)) w.add_tensor(t.name, t.type, t.shape, filled(t).bytes);
  }
  // Without the flush to the disk of GgufWriter::write: tests write hundreds of files.
  const auto encoded = w.to_bytes();
  ASSERT_TRUE(encoded.ok()) << encoded.status().text();
  std::ofstream(path, std::ios::binary) << *encoded;
}

inline void TinyModel::build_keys() {
  const int blocks = g.blocks + (g.draft_experts > 0 ? 1 : 0);
  set_text("general.architecture", "qwen4exp");
  set_text("general.name", "tiny");
  const std::pair<const char*, int> numbers[] = {
      {"block_count", blocks},
      {"context_length", g.context},
      {"embedding_length", g.d_model},
      {"attention.head_count", g.heads},
      {"attention.head_count_kv", g.kv_heads},
      {"attention.key_length", g.head_dim},
      {"attention.value_length", g.head_dim},
      {"rope.dimension_count", g.rope_dims},
      {"expert_count", g.experts},
      {"expert_used_count", g.used},
      {"expert_feed_forward_length", g.width},
      {"expert_shared_feed_forward_length", g.shared_width},
      {"ssm.conv_kernel", g.conv_kernel},
      {"ssm.state_size", g.gdn_dim},
      {"ssm.group_count", g.k_heads},
      {"ssm.time_step_rank", g.v_heads},
      {"ssm.inner_size", g.v_heads * g.gdn_dim},
      {"full_attention_interval", g.interval},
      {"hyper_connection.count", g.streams},
      {"hyper_connection.low_rank", g.rank},
      {"attention.indexer.head_count", g.index_heads},
      {"attention.indexer.key_length", g.index_dim},
      {"attention.indexer.top_k", g.top_k},
  };
  for (const auto& [name, value] : numbers) set<uint32_t>(name, static_cast<uint32_t>(value));
  if (g.draft_experts > 0) set<uint32_t>("nextn_predict_layers", 1);
  set<float>("attention.layer_norm_rms_epsilon", 1e-6f);
  set<float>("rope.freq_base", 10000.0f);
  const int pairs = g.rope_dims / 2;
  set_array<int32_t>("rope.dimension_sections", {pairs - 2 * (pairs / 3), pairs / 3, pairs / 3, 0});
  std::vector<int32_t> ratios;
  for (int i = 0; i < blocks; ++i) ratios.push_back(i < g.blocks && g.attends(i) ? g.ratio : 0);
  set_array<int32_t>("attention.compress_ratios", ratios);
  if (g.ngram_size > 0) build_ngram_keys();
}

inline void TinyModel::build_ngram_keys() {
  set_array<int32_t>("ple.layers", {1});
  set<uint32_t>("ple.ngram_size", static_cast<uint32_t>(g.ngram_size));
  set<uint32_t>("ple.heads_per_ngram", static_cast<uint32_t>(g.heads_per_ngram));
  set<uint32_t>("ple.conv_kernel", 4);
  set<uint32_t>("ple.eos_token_id", static_cast<uint32_t>(g.eos));
  set<uint32_t>("embedding_length_per_layer_input", static_cast<uint32_t>(g.ngram_width));
  std::vector<uint64_t> multipliers, sizes, offsets;
  for (int i = 0; i < g.ngram_size; ++i) multipliers.push_back(1000003ull * static_cast<uint64_t>(i + 7) * 2 + 1);
  for (int h = 0; h < g.ngram_heads(); ++h) {
    sizes.push_back(static_cast<uint64_t>(g.rows_per_head));
    offsets.push_back(static_cast<uint64_t>(h) * static_cast<uint64_t>(g.rows_per_head));
  }
  set_array<uint64_t>("ple.layer_multipliers", multipliers);
  set_array<uint64_t>("ple.head_vocab_sizes", sizes);
  set_array<uint64_t>("ple.head_offsets", offsets);
}

inline void TinyModel::build_attention(const std::string& p) {
  const int64_t d = g.d_model, q = int64_t{1} * g.heads * g.head_dim, kv = int64_t{1} * g.kv_heads * g.head_dim;
  matrix(p + "attn_q.weight", d, 2 * q, g.dense);
  matrix(p + "attn_k.weight", d, kv, g.dense);
  matrix(p + "attn_v.weight", d, kv, g.dense);
  matrix(p + "attn_output.weight", q, d, g.dense);
  vector(p + "attn_q_norm.weight", g.head_dim);
  vector(p + "attn_k_norm.weight", g.head_dim);
  matrix(p + "indexer.q_proj.weight", d, int64_t{1} * g.index_heads * g.index_dim, g.small);
  matrix(p + "indexer.k_proj.weight", d, g.index_dim, g.small);
  vector(p + "indexer.q_norm.weight", g.index_dim);
  vector(p + "indexer.k_norm.weight", g.index_dim);
}

inline void TinyModel::build_delta_net(const std::string& p) {
  const int64_t d = g.d_model, value = int64_t{1} * g.v_heads * g.gdn_dim;
  const int64_t channels = value + int64_t{2} * g.k_heads * g.gdn_dim;
  matrix(p + "attn_qkv.weight", d, channels, g.dense);
  matrix(p + "attn_gate.weight", d, value, g.dense);
  matrix(p + "ssm_beta.weight", d, g.v_heads, g.small);
  matrix(p + "ssm_alpha.weight", d, g.v_heads, g.small);
  matrix(p + "ssm_out.weight", value, d, g.dense);
  add(p + "ssm_conv1d.weight", DType::F32, {g.conv_kernel, channels}, 0.5f);
  vector(p + "ssm_dt.bias", g.v_heads);
  vector(p + "ssm_a", g.v_heads, 0.3f);
  tensors.back().map = [](float v) { return -0.05f - std::abs(v); };  // decays
  vector(p + "ssm_norm.weight", g.gdn_dim);
}

inline void TinyModel::build_ngrams(const std::string& p) {
  const int64_t d = g.d_model, wide = d * g.streams, in = int64_t{1} * g.ngram_heads() * g.ngram_width;
  matrix(p + "ple_key.weight", in, wide, g.dense);
  matrix(p + "ple_value.weight", in, d, g.dense);
  for (const char* part : {"key", "query", "conv"}) vector(p + "ple_norm_" + part + ".weight", wide);
  add(p + "ple_conv1d.weight", DType::F16, {4, wide}, 0.5f);
}

inline void TinyModel::build_block(int index, bool attends, bool ngram, int experts) {
  const std::string p = block_prefix(index);
  const int64_t d = g.d_model;
  hyper(p + "hc_attn", true);
  hyper(p + "hc_ffn", true);
  if (attends) build_attention(p);
  if (!attends) build_delta_net(p);
  if (ngram) build_ngrams(p);
  const float rms = 1.0f / std::sqrt(static_cast<float>(d));
  matrix(p + "ffn_gate_inp.weight", d, experts, DType::F32);
  add(p + "ffn_gate_exps.weight", g.expert_in, {d, g.width, experts}, rms);
  add(p + "ffn_up_exps.weight", g.expert_in, {d, g.width, experts}, rms);
  add(p + "ffn_down_exps.weight", g.expert_out, {g.width, d, experts}, 1.0f / std::sqrt(static_cast<float>(g.width)));
  add(p + "ffn_gate_inp_shexp.weight", DType::F32, {d}, rms);
  matrix(p + "ffn_gate_shexp.weight", d, g.shared_width, g.dense);
  matrix(p + "ffn_up_shexp.weight", d, g.shared_width, g.dense);
  matrix(p + "ffn_down_shexp.weight", g.shared_width, d, g.dense);
}

inline void TinyModel::build() {
  build_keys();
  matrix("token_embd.weight", g.d_model, g.vocab, g.dense);
  tensor("token_embd.weight").rms = 1;
  matrix("output.weight", g.d_model, g.vocab, g.dense);
  hyper("output_hc", false);
  for (int i = 0; i < g.blocks; ++i) build_block(i, g.attends(i), g.ngram_size > 0 && i == 1, g.experts);
  if (g.ngram_size > 0) {
    add("per_layer_token_embd.weight", DType::IQ4_NL, {g.ngram_width, int64_t{1} * g.ngram_heads() * g.rows_per_head},
        0.5f);
  }
  if (g.draft_experts == 0) return;
  build_block(g.blocks, true, false, g.draft_experts);
  const std::string n = block_prefix(g.blocks) + "nextn.";
  vector(n + "enorm.weight", g.d_model);
  vector(n + "hnorm.weight", int64_t{1} * g.streams * g.d_model);
  matrix(n + "eh_proj.weight", int64_t{2} * g.d_model, g.d_model, g.dense);
  hyper(n + "hc_head", false);
}

}  // namespace strata::testing
