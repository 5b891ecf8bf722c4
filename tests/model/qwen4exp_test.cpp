// What the keys and tensors of a well-formed file mean. Files that are wrong: qwen4exp_hostile_test.cpp.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "model/architecture.h"
#include "model/tiny_model.h"
#include "model/weights.h"
#include "tensor/craft.h"

namespace strata {
namespace {

using testing::TinyGeometry;
using testing::TinyModel;

std::shared_ptr<const Model> load(TinyModel& m) {
  const TempDir dir;
  m.write(dir.path("m.gguf"));
  return load_model(dir.path("m.gguf"), "").value();
}

std::vector<int> attention_blocks(const ModelConfig& c) {
  std::vector<int> out;
  for (size_t i = 0; i < c.blocks.size(); ++i) {
    if (c.blocks[i].mixer == Mixer::attention) out.push_back(static_cast<int>(i));
  }
  return out;
}

TEST(Qwen4ExpConfig, HoldsTheNumbersOfTheFile) {
  TinyModel m;
  const ModelConfig c = load(m)->config;
  EXPECT_EQ(c.architecture, "qwen4exp");
  EXPECT_EQ(c.name, "tiny");
  EXPECT_EQ(c.vocab, 96);
  EXPECT_EQ(c.d_model, 64);
  EXPECT_EQ(c.context_length, 512);
  EXPECT_EQ(c.eps, 1e-6f);
  EXPECT_EQ(c.streams, 2);
  EXPECT_EQ(c.hyper_rank, 32);
  EXPECT_EQ(c.heads, 4);
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.rope_dims, 8);
  EXPECT_EQ(c.rope_base, 10000.0);
  EXPECT_EQ(c.rope_sections, (std::vector<int>{2, 1, 1}));
  EXPECT_EQ(c.index_heads, 2);
  EXPECT_EQ(c.index_dim, 16);
  EXPECT_EQ(c.index_budget, 16);
  EXPECT_EQ(c.block_tokens, 4);
  EXPECT_EQ(c.gdn_k_heads, 2);
  EXPECT_EQ(c.gdn_v_heads, 6);
  EXPECT_EQ(c.gdn_k_dim, 16);
  EXPECT_EQ(c.gdn_v_dim, 16);
  EXPECT_EQ(c.gdn_conv_kernel, 4);
  EXPECT_EQ(c.n_delta_net, 3);
  EXPECT_EQ(c.n_attention, 1);
  EXPECT_EQ(c.blocks[1].n_experts, 8);
  EXPECT_EQ(c.blocks[1].n_experts_used, 3);
  EXPECT_EQ(c.blocks[1].expert_width, 32);
  EXPECT_EQ(c.blocks[1].shared_width, 64);
  EXPECT_TRUE(c.blocks[1].ngram);
  EXPECT_FALSE(c.blocks[0].ngram);
  EXPECT_EQ(c.ngram.size, 3);
  EXPECT_EQ(c.ngram.heads(), 4);
  EXPECT_EQ(c.ngram.dilation(), 3);
  EXPECT_EQ(c.ngram.row_width, 32);
  EXPECT_EQ(c.ngram.table_rows, 4u * 61);
  EXPECT_EQ(c.ngram.eos, TokenId(0));
}

TEST(Qwen4ExpConfig, TheValueWidthOfTheDeltaNetComesFromItsInnerSize) {
  TinyModel m;
  m.set<uint32_t>("ssm.inner_size", 6 * 32);
  for (int b = 0; b < 3; ++b) {
    const std::string p = TinyModel::block_prefix(b);
    m.tensor(p + "attn_qkv.weight").shape.ne[1] = 2 * 2 * 16 + 6 * 32;
    m.tensor(p + "ssm_conv1d.weight").shape.ne[1] = 2 * 2 * 16 + 6 * 32;
    m.tensor(p + "attn_gate.weight").shape.ne[1] = 6 * 32;
    m.tensor(p + "ssm_out.weight").shape.ne[0] = 6 * 32;
    m.tensor(p + "ssm_norm.weight").shape.ne[0] = 32;
  }
  const ModelConfig c = load(m)->config;
  EXPECT_EQ(c.gdn_k_dim, 16);
  EXPECT_EQ(c.gdn_v_dim, 32);
}

TEST(Qwen4ExpConfig, EveryIntervalThBlockAttends) {
  TinyGeometry g;
  g.blocks = 6, g.interval = 3;
  TinyModel every_third(g);
  EXPECT_EQ(attention_blocks(load(every_third)->config), (std::vector<int>{2, 5}));
  g.blocks = 3, g.interval = 1;
  TinyModel all(g);
  const ModelConfig c = load(all)->config;
  EXPECT_EQ(attention_blocks(c), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(c.n_delta_net, 0);
  g.blocks = 3, g.interval = 4;
  TinyModel none(g);
  EXPECT_EQ(load(none)->config.n_attention, 0);
}

TEST(Qwen4ExpConfig, WithoutAnIntervalEveryFourthBlockAttends) {
  TinyModel m;
  m.erase("full_attention_interval");
  EXPECT_EQ(attention_blocks(load(m)->config), (std::vector<int>{3}));
}

TEST(Qwen4ExpConfig, AListOfRecurrentLayersGoesBeforeTheInterval) {
  TinyGeometry g;
  g.blocks = 4, g.interval = 2;  // writes blocks 1 and 3 as attention
  TinyModel m(g);
  m.set<uint32_t>("full_attention_interval", 4);
  m.set_array<bool>("attention.recurrent_layers", {true, false, true, false});
  EXPECT_EQ(attention_blocks(load(m)->config), (std::vector<int>{1, 3}));
  m.set_array<int32_t>("attention.recurrent_layers", {1, 0, 1, 0});
  EXPECT_EQ(attention_blocks(load(m)->config), (std::vector<int>{1, 3}));
}

TEST(Qwen4ExpConfig, WithoutRatiosABlockHasFourTokensAndRatioZeroMeansDense) {
  TinyModel absent, zero;
  absent.erase("attention.compress_ratios");
  EXPECT_EQ(load(absent)->config.block_tokens, 4);
  zero.set_array<int32_t>("attention.compress_ratios", {0, 0, 0, 0});
  const auto dense = load(zero);
  EXPECT_EQ(dense->config.block_tokens, 0);
  EXPECT_EQ(dense->blocks[3].attention.budget_blocks, 0);
}

// A layer cannot be dense in one place and indexed in another: one block size stands for the whole model.
TEST(Qwen4ExpConfig, RatiosMayNotDifferBetweenAttentionLayers) {
  TinyGeometry g;
  g.interval = 2;
  for (const auto& ratios : {std::vector<int32_t>{0, 0, 0, 4}, {0, 4, 0, 0}, {0, 4, 0, 8}}) {
    TinyModel m(g);
    m.set_array<int32_t>("attention.compress_ratios", ratios);
    const TempDir dir;
    m.write(dir.path("m.gguf"));
    const auto loaded = load_model(dir.path("m.gguf"), "");
    ASSERT_FALSE(loaded.ok());
    EXPECT_NE(loaded.status().message().find("attention.compress_ratios differ between layers"), std::string::npos)
        << loaded.status().text();
  }
}

TEST(Qwen4ExpConfig, TheBudgetIsCountedInBlocks) {
  for (const auto& [ratio, blocks] : {std::pair{4, 5}, {8, 2}, {1, 20}}) {
    TinyGeometry g;
    g.ratio = ratio, g.top_k = 20;
    TinyModel m(g);
    const auto model = load(m);
    EXPECT_EQ(model->blocks[3].attention.block_tokens, ratio);
    EXPECT_EQ(model->blocks[3].attention.budget_blocks, blocks);
  }
}

// The interleaved order: pair i turns with height when i % 3 == 1, with width when i % 3 == 2, as far as they reach.
TEST(Qwen4ExpConfig, RotaryPairsAreInterleavedAmongTheAxes) {
  const auto axes = [](std::vector<int32_t> sections, int dims) {
    TinyGeometry g;
    g.head_dim = 64, g.index_dim = 64, g.rope_dims = dims;
    TinyModel m(g);
    if (sections.empty())
      m.erase("rope.dimension_sections");
    else
      m.set_array<int32_t>("rope.dimension_sections", sections);
    return load(m)->blocks[3].attention.rope;
  };
  const Rope real = axes({11, 11, 10, 0}, 64);
  ASSERT_EQ(real.axis.size(), 32u);
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(real.axis[i], i % 3 == 1 ? 1 : (i % 3 == 2 && i < 30) ? 2 : 0) << "pair " << i;
    EXPECT_FLOAT_EQ(real.inv_freq[i], static_cast<float>(std::pow(10000.0, -static_cast<double>(i) / 32)));
  }
  EXPECT_EQ(axes({11, 11, 10}, 64).axis, real.axis);
  EXPECT_EQ(axes({}, 16).axis, std::vector<uint8_t>(8, 0));
  EXPECT_EQ(axes({4, 2, 2, 0}, 16).axis, (std::vector<uint8_t>{0, 1, 2, 0, 1, 2, 0, 0}));
  EXPECT_EQ(axes({7, 1, 0, 0}, 16).axis, (std::vector<uint8_t>{0, 1, 0, 0, 0, 0, 0, 0}));
}

TEST(Qwen4ExpConfig, ExpertsAreWhatTheTensorsSay) {
  TinyModel m;
  const std::string p = TinyModel::block_prefix(2);
  m.tensor(p + "ffn_gate_inp.weight").shape.ne[1] = 5;
  for (const char* name : {"ffn_gate_exps.weight", "ffn_up_exps.weight"}) m.tensor(p + name).shape.ne = {64, 96, 5, 1};
  m.tensor(p + "ffn_down_exps.weight").shape.ne = {96, 64, 5, 1};
  m.tensor(p + "ffn_gate_exps.weight").type = DType::Q5_0;
  const auto model = load(m);
  EXPECT_EQ(model->config.blocks[2].n_experts, 5);
  EXPECT_EQ(model->config.blocks[2].expert_width, 96);
  EXPECT_EQ(model->config.blocks[1].n_experts, 8);
  EXPECT_EQ(model->blocks[2].experts.gate.type, DType::Q5_0);
  EXPECT_EQ(model->blocks[2].experts.up.type, DType::IQ4_NL);
}

TEST(Qwen4ExpConfig, WithoutTheKeyThereAreNoNgrams) {
  TinyGeometry g;
  g.ngram_size = 0;
  TinyModel m(g);
  const auto model = load(m);
  EXPECT_FALSE(model->config.has_ngrams);
  EXPECT_FALSE(model->ngram_table);
}

TEST(Qwen4ExpConfig, NumbersMayHaveAnyIntegerType) {
  TinyModel m;
  m.set<int64_t>("embedding_length", 64);
  m.set<uint8_t>("attention.head_count", 4);
  m.set<int16_t>("expert_used_count", 3);
  m.set<double>("rope.freq_base", 10000.0);
  m.set_array<int64_t>("attention.compress_ratios", {0, 0, 0, 4});
  m.set_array<uint32_t>("ple.head_offsets", {0, 61, 122, 183});
  EXPECT_EQ(load(m)->config.heads, 4);
}

// A file of the published geometry: every tensor has its true shape and type, and no bytes but zeros that no disk
// holds.
class RealGeometry {
 public:
  RealGeometry() {
    keys();
    tensor("token_embd.weight", {2560, 248320}, DType::IQ4_XS);
    tensor("output.weight", {2560, 248320}, DType::Q5_K);
    hyper("output_hc", false);
    for (int i = 0; i < 48; ++i) block(i);
    tensor("per_layer_token_embd.weight", {160, 320001536}, DType::IQ4_NL);
  }
  // False where the file system cannot hold such a file.
  bool write(const std::string& path) {
    {
      std::ofstream out(path, std::ios::binary);
      out << craft_.bytes();
    }
    const auto header = static_cast<uint64_t>(craft_.bytes().size());
    return ::truncate(path.c_str(), static_cast<off_t>(header + offset_)) == 0;
  }

 private:
  void number(const std::string& name, uint32_t value) { craft_.key("qwen4exp." + name, kU32, le(value)); }
  template <class T>
  void list(const std::string& name, uint32_t type, const std::vector<T>& values) {
    std::string bytes;
    for (const T v : values) bytes += le(v);
    craft_.array("qwen4exp." + name, type, values.size(), bytes);
  }
  void keys() {
    craft_.key("general.architecture", kString, str("qwen4exp"));
    const std::pair<const char*, uint32_t> numbers[] = {{"block_count", 48},
                                                        {"context_length", 262144},
                                                        {"embedding_length", 2560},
                                                        {"attention.head_count", 24},
                                                        {"attention.head_count_kv", 2},
                                                        {"attention.key_length", 256},
                                                        {"attention.value_length", 256},
                                                        {"rope.dimension_count", 64},
                                                        {"expert_count", 512},
                                                        {"expert_used_count", 10},
                                                        {"expert_feed_forward_length", 640},
                                                        {"expert_shared_feed_forward_length", 640},
                                                        {"ssm.conv_kernel", 4},
                                                        {"ssm.state_size", 128},
                                                        {"ssm.group_count", 16},
                                                        {"ssm.time_step_rank", 48},
                                                        {"ssm.inner_size", 6144},
                                                        {"full_attention_interval", 4},
                                                        {"hyper_connection.count", 4},
                                                        {"hyper_connection.low_rank", 320},
                                                        {"attention.indexer.head_count", 4},
                                                        {"attention.indexer.key_length", 128},
                                                        {"attention.indexer.top_k", 2048},
                                                        {"ple.ngram_size", 3},
                                                        {"ple.heads_per_ngram", 8},
                                                        {"ple.conv_kernel", 4},
                                                        {"ple.eos_token_id", 248044},
                                                        {"embedding_length_per_layer_input", 160}};
    for (const auto& [name, value] : numbers) number(name, value);
    craft_.key("qwen4exp.attention.layer_norm_rms_epsilon", kF32, le(1e-6f));
    craft_.key("qwen4exp.rope.freq_base", kF32, le(1e7f));
    list<int32_t>("rope.dimension_sections", kI32, {11, 11, 10, 0});
    std::vector<int32_t> ratios;
    for (int i = 0; i < 48; ++i) ratios.push_back(i % 4 == 3 ? 4 : 0);
    list("attention.compress_ratios", kI32, ratios);
    list<int32_t>("ple.layers", kI32, {1});
    list<uint64_t>("ple.layer_multipliers", kU64, {23703573157769, 20109073645365, 8052911324071});
    std::vector<uint64_t> sizes = {20000003, 20000023, 20000033, 20000047, 20000059, 20000063, 20000069, 20000077,
                                   20000081, 20000093, 20000107, 20000147, 20000153, 20000159, 20000161, 20000171};
    std::vector<uint64_t> offsets{0};
    for (size_t h = 0; h + 1 < sizes.size(); ++h) offsets.push_back(offsets.back() + sizes[h]);
    list("ple.head_vocab_sizes", kU64, sizes);
    list("ple.head_offsets", kU64, offsets);
  }
  void tensor(const std::string& name, const std::vector<uint64_t>& dims, DType type) {
    craft_.tensor(name, dims, static_cast<uint32_t>(type), offset_);
    uint64_t rows = 1;
    for (size_t i = 1; i < dims.size(); ++i) rows *= dims[i];
    offset_ += (row_bytes(type, static_cast<int64_t>(dims[0])) * rows + 31) / 32 * 32;
  }
  void hyper(const std::string& p, bool writes) {
    tensor(p + "_norm.weight", {10240}, DType::F32);
    tensor(p + "_down.weight", {10240, 320}, DType::BF16);
    tensor(p + "_up.weight", {320, 10240}, DType::BF16);
    if (writes) tensor(p + "_inject.weight", {10240, 4}, DType::BF16);
  }
  void block(int i) {
    const std::string p = TinyModel::block_prefix(i);
    hyper(p + "hc_attn", true);
    hyper(p + "hc_ffn", true);
    i % 4 == 3 ? attention(p) : delta_net(p);
    if (i == 1) ngrams(p);
    tensor(p + "ffn_gate_inp.weight", {2560, 512}, DType::BF16);
    tensor(p + "ffn_gate_exps.weight", {2560, 640, 512}, DType::Q2_0);
    tensor(p + "ffn_up_exps.weight", {2560, 640, 512}, DType::Q2_0);
    tensor(p + "ffn_down_exps.weight", {640, 2560, 512}, DType::Q2_0);
    tensor(p + "ffn_gate_shexp.weight", {2560, 640}, DType::IQ4_XS);
    tensor(p + "ffn_up_shexp.weight", {2560, 640}, DType::IQ4_XS);
    tensor(p + "ffn_down_shexp.weight", {640, 2560}, DType::IQ4_NL);
    tensor(p + "ffn_gate_inp_shexp.weight", {2560}, DType::BF16);
  }
  void attention(const std::string& p) {
    tensor(p + "attn_q.weight", {2560, 12288}, DType::Q4_K);
    for (const char* name : {"attn_k.weight", "attn_v.weight"}) tensor(p + name, {2560, 512}, DType::Q6_K);
    tensor(p + "attn_output.weight", {6144, 2560}, DType::Q4_K);
    for (const char* name : {"attn_q_norm.weight", "attn_k_norm.weight"}) tensor(p + name, {256}, DType::F32);
    tensor(p + "indexer.q_proj.weight", {2560, 512}, DType::BF16);
    tensor(p + "indexer.k_proj.weight", {2560, 128}, DType::BF16);
    for (const char* name : {"indexer.q_norm.weight", "indexer.k_norm.weight"}) tensor(p + name, {128}, DType::F32);
  }
  void delta_net(const std::string& p) {
    tensor(p + "attn_qkv.weight", {2560, 10240}, DType::Q4_K);
    tensor(p + "attn_gate.weight", {2560, 6144}, DType::Q4_K);
    for (const char* name : {"ssm_beta.weight", "ssm_alpha.weight"}) tensor(p + name, {2560, 48}, DType::BF16);
    for (const char* name : {"ssm_a", "ssm_dt.bias"}) tensor(p + name, {48}, DType::F32);
    tensor(p + "ssm_conv1d.weight", {4, 10240}, DType::F32);
    tensor(p + "ssm_norm.weight", {128}, DType::F32);
    tensor(p + "ssm_out.weight", {6144, 2560}, DType::Q4_K);
  }
  void ngrams(const std::string& p) {
    tensor(p + "ple_key.weight", {2560, 10240}, DType::IQ3_XXS);
    tensor(p + "ple_value.weight", {2560, 2560}, DType::BF16);
    for (const char* name : {"ple_norm_key.weight", "ple_norm_query.weight", "ple_norm_conv.weight"})
      tensor(p + name, {10240}, DType::F32);
    tensor(p + "ple_conv1d.weight", {4, 10240}, DType::F16);
  }

  Craft craft_;
  uint64_t offset_ = 0;
};

TEST(Qwen4ExpRealGeometry, LoadsWithEveryTensorInItsPlace) {
  const TempDir dir;
  RealGeometry real;
  if (!real.write(dir.path("real.gguf"))) GTEST_SKIP() << "the file system holds no sparse file of 66 GB";
  const auto loaded = load_model(dir.path("real.gguf"), "");
  ASSERT_TRUE(loaded.ok()) << loaded.status().text();
  const Model& m = **loaded;
  EXPECT_EQ(m.file->tensors().size(), 1224u);
  EXPECT_TRUE(m.notes.empty()) << m.notes.front();
  const ModelConfig& c = m.config;
  EXPECT_EQ(c.n_delta_net, 36);
  EXPECT_EQ(c.n_attention, 12);
  EXPECT_EQ(c.vocab, 248320);
  EXPECT_EQ(c.gdn_channels(), 10240);
  EXPECT_EQ(c.wide(), 10240);
  EXPECT_EQ(c.ngram.heads() * c.ngram.row_width, 2560);
  EXPECT_EQ(m.ngram_table.bytes(), 28800138240u);
  EXPECT_EQ(m.blocks[7].attention.budget_blocks, 512);
  EXPECT_FLOAT_EQ(m.blocks[7].attention.scale, 0.0625f);
  EXPECT_EQ(m.blocks[0].experts.bytes_each(c.d_model, 640), 1382400u);
  // 10 of 512 experts in 48 blocks of the bytes above, and 1.28 GB of hyper-connections; the rest is dense.
  EXPECT_NEAR(static_cast<double>(bytes_per_token(m)) * 1e-9, 4.2, 0.3);
}

}  // namespace
}  // namespace strata
