// Files that are well-formed GGUF and no model: each is one error that names the file and the key or tensor, and costs
// no memory to speak of.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <new>

#include "model/tiny_model.h"
#include "model/weights.h"

namespace {

thread_local size_t largest_allocation = 0;

}  // namespace

// Every allocation of this binary goes through here, so that a test can tell the largest one.
[[gnu::noinline]] void* operator new(size_t n) {
  largest_allocation = std::max(largest_allocation, n);
  if (void* p = std::malloc(n != 0 ? n : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept {
  std::free(p);
}

namespace strata {
namespace {

using testing::TinyGeometry;
using testing::TinyModel;

constexpr size_t kMiB = 1 << 20;

class HostileFile : public ::testing::Test {
 protected:
  // The failure of loading the file; the name of the file and nothing large stand behind it.
  Status failure(TinyModel& m) {
    m.write(dir_.path("m.gguf"));
    largest_allocation = 0;
    const auto loaded = load_model(dir_.path("m.gguf"), "");
    EXPECT_LT(largest_allocation, kMiB);
    if (loaded.ok()) return {};
    EXPECT_TRUE(loaded.status().message().find("m.gguf") != std::string::npos) << loaded.status().text();
    EXPECT_LT(loaded.status().text().size(), 2000u);
    return loaded.status();
  }
  void expect_failure(TinyModel& m, const std::vector<std::string>& words, const std::string& what) {
    const Status s = failure(m);
    EXPECT_FALSE(s.ok()) << what << " loads";
    for (const std::string& word : words) EXPECT_NE(s.text().find(word), std::string::npos) << what << ": " << s.text();
  }

  TempDir dir_;
};

using Edit = std::function<void(TinyModel&)>;

struct Case {
  const char* key;  // named in the error
  Edit edit;
  const char* also = "";  // also in the error
};

Edit number(const char* key, int64_t value) {
  return [=](TinyModel& m) { m.set<int64_t>(key, value); };
}
Edit real(const char* key, double value) {
  return [=](TinyModel& m) { m.set<double>(key, value); };
}
Edit list(const char* key, const std::vector<int64_t>& values) {
  return [=](TinyModel& m) { m.set_array<int64_t>(key, values); };
}

TEST_F(HostileFile, NumbersOutsideTheirRangeNameTheKey) {
  constexpr int64_t k2e31 = int64_t{1} << 31;
  const std::pair<const char*, std::vector<int64_t>> keys[] = {
      {"block_count", {0, 513, k2e31, -1, int64_t{1} << 40}},
      {"nextn_predict_layers", {2, -1, 1000}},
      {"context_length", {0, -1, k2e31}},
      {"embedding_length", {0, -64, k2e31}},
      {"hyper_connection.count", {0, 1, 65, k2e31}},
      {"hyper_connection.low_rank", {0, -1, k2e31}},
      {"attention.head_count", {0, -4, 4097, k2e31}},
      {"attention.head_count_kv", {0, -1, k2e31}},
      {"attention.key_length", {0, 1, k2e31}},
      {"attention.value_length", {0, k2e31}},
      {"rope.dimension_count", {0, k2e31}},
      {"expert_count", {0, -1, k2e31}},
      {"expert_used_count", {0, -1, k2e31}},
      {"expert_feed_forward_length", {0, k2e31}},
      {"expert_shared_feed_forward_length", {0, k2e31}},
      {"full_attention_interval", {0, -1, 513, k2e31}},
      {"attention.indexer.head_count", {0, k2e31}},
      {"attention.indexer.key_length", {0, k2e31}},
      {"attention.indexer.top_k", {0, 3, -1, k2e31}},  // 3: less than a block of 4
      {"ssm.conv_kernel", {0, 1, 65, k2e31}},
      {"ssm.state_size", {0, k2e31}},
      {"ssm.group_count", {0, k2e31}},
      {"ssm.time_step_rank", {0, k2e31}},
      {"ssm.inner_size", {0, k2e31}},
      {"ple.ngram_size", {0, 1, 17, k2e31}},
      {"ple.heads_per_ngram", {0, 257, k2e31}},
      {"ple.conv_kernel", {0, 1, k2e31}},
      {"ple.eos_token_id", {-1, k2e31}},
      {"embedding_length_per_layer_input", {0, k2e31}},
  };
  for (const auto& [key, values] : keys) {
    for (const int64_t value : values) {
      TinyModel m;
      m.set<int64_t>(key, value);
      expect_failure(m, {std::string("qwen4exp.") + key}, fmt::format("{} = {}", key, value));
    }
  }
}

TEST_F(HostileFile, NumbersThatContradictOneAnotherSayWhich) {
  const Case cases[] = {
      {"value_length", number("attention.value_length", 32), "key_length 16"},
      {"4 heads", number("attention.head_count_kv", 3), "3 key heads"},
      {"rope.dimension_count", number("rope.dimension_count", 7)},
      {"rope.dimension_count", number("rope.dimension_count", 18)},
      {"block 0", number("expert_used_count", 9), "9 of 8 experts"},
      {"6 value heads", number("ssm.group_count", 4), "4 key heads"},
      {"ssm.inner_size 97", number("ssm.inner_size", 97)},
      {"indexer keys of 4", number("attention.indexer.key_length", 4)},
      {"rope.dimension_sections", list("rope.dimension_sections", {2, 1})},
      {"rope.dimension_sections", list("rope.dimension_sections", {2, 1, 1, 0, 0})},
      {"rope.dimension_sections", list("rope.dimension_sections", {2, -1, 1, 0})},
      {"rope.dimension_sections", list("rope.dimension_sections", {2, 1, int64_t{1} << 40, 0})},
      {"attention.recurrent_layers", list("attention.recurrent_layers", {1, 1, 1})},
      {"attention.compress_ratios", list("attention.compress_ratios", {0, 0, 0})},
      {"attention.compress_ratios", list("attention.compress_ratios", {0, 0, 0, 3}), "divisor of 64"},
      {"attention.compress_ratios", list("attention.compress_ratios", {0, 0, 0, 128})},
      {"attention.compress_ratios", list("attention.compress_ratios", {0, 0, 0, -4})},
      {"attention.compress_ratios", list("attention.compress_ratios", {0, 0, 0, int64_t{1} << 32 | 4})},
      {"ple.layers", list("ple.layers", {1, 2}), "2 entries"},
      {"ple.layers", list("ple.layers", {4}), "block 4 of 4"},
      {"ple.layers", list("ple.layers", {-1})},
      {"ple.layer_multipliers", list("ple.layer_multipliers", {1, 2}), "2 entries, expected 3"},
      {"ple.layer_multipliers", list("ple.layer_multipliers", {1, -2, 3})},
      {"ple.head_vocab_sizes", list("ple.head_vocab_sizes", {61, 61, 61}), "3 entries, expected 4"},
      {"ple.head_offsets", list("ple.head_offsets", std::vector<int64_t>(1000)), "1000 entries, expected 4"},
      {"n-gram head 1", list("ple.head_vocab_sizes", {61, 0, 61, 61})},
      {"n-gram head 3", list("ple.head_offsets", {0, 61, 122, 184}), "table of 244 rows"},
      {"n-gram head 0", list("ple.head_vocab_sizes", {245, 61, 61, 61})},
      {"n-gram head 2", list("ple.head_offsets", {0, 61, INT64_MAX, 183})},
      {"block_count",
       [](TinyModel& m) { m.set<uint32_t>("block_count", 1), m.set<uint32_t>("nextn_predict_layers", 1); }},
  };
  for (const Case& c : cases) {
    TinyModel m;
    c.edit(m);
    expect_failure(m, {c.key, c.also}, c.key);
  }
}

TEST_F(HostileFile, RealNumbersMustBeFiniteAndInRange) {
  constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double value : {0.0, -1e4, 1e13, kInf, kNan}) {
    TinyModel m;
    real("rope.freq_base", value)(m);
    expect_failure(m, {"qwen4exp.rope.freq_base"}, fmt::format("rope.freq_base {}", value));
  }
  for (const double value : {-1e-6, 2.0, kInf, kNan}) {
    TinyModel m;
    real("attention.layer_norm_rms_epsilon", value)(m);
    expect_failure(m, {"qwen4exp.attention.layer_norm_rms_epsilon"}, fmt::format("epsilon {}", value));
  }
}

const char* const kNumberKeys[] = {"block_count",
                                   "context_length",
                                   "embedding_length",
                                   "attention.head_count",
                                   "attention.head_count_kv",
                                   "attention.key_length",
                                   "attention.value_length",
                                   "rope.dimension_count",
                                   "rope.freq_base",
                                   "attention.layer_norm_rms_epsilon",
                                   "expert_used_count",
                                   "hyper_connection.count",
                                   "hyper_connection.low_rank",
                                   "attention.indexer.head_count",
                                   "attention.indexer.key_length",
                                   "attention.indexer.top_k",
                                   "ssm.conv_kernel",
                                   "ssm.state_size",
                                   "ssm.group_count",
                                   "ssm.time_step_rank",
                                   "ssm.inner_size",
                                   "ple.ngram_size",
                                   "ple.heads_per_ngram",
                                   "ple.conv_kernel",
                                   "ple.eos_token_id",
                                   "embedding_length_per_layer_input"};
const char* const kListKeys[] = {"ple.layer_multipliers", "ple.head_vocab_sizes", "ple.head_offsets"};
const char* const kOptionalListKeys[] = {"rope.dimension_sections", "attention.compress_ratios",
                                         "attention.recurrent_layers", "ple.layers"};

TEST_F(HostileFile, AMissingKeyIsNamed) {
  for (const auto* keys : {&kNumberKeys[0]}) {
    for (size_t i = 0; i < std::size(kNumberKeys); ++i) {
      TinyModel m;
      m.erase(keys[i]);
      expect_failure(m, {std::string("qwen4exp.") + keys[i]}, std::string(keys[i]) + " absent");
    }
  }
  for (const char* key : kListKeys) {
    TinyModel m;
    m.erase(key);
    expect_failure(m, {std::string("qwen4exp.") + key}, std::string(key) + " absent");
  }
}

TEST_F(HostileFile, AKeyOfTheWrongTypeIsNamed) {
  for (const char* key : kNumberKeys) {
    TinyModel text, many, flag;
    text.set_text(key, "64");
    many.set_array<uint32_t>(key, {64});
    flag.set<bool>(key, true);
    for (TinyModel* m : {&text, &many, &flag}) expect_failure(*m, {std::string("qwen4exp.") + key}, key);
  }
  for (const auto* keys : {&kListKeys[0], &kOptionalListKeys[0]}) {
    const size_t n = keys == &kListKeys[0] ? std::size(kListKeys) : std::size(kOptionalListKeys);
    for (size_t i = 0; i < n; ++i) {
      TinyModel one, reals;
      one.set<uint32_t>(keys[i], 4);
      reals.set_array<float>(keys[i], {1, 2, 3, 4});
      for (TinyModel* m : {&one, &reals}) expect_failure(*m, {std::string("qwen4exp.") + keys[i]}, keys[i]);
    }
  }
}

TEST_F(HostileFile, EveryMissingTensorIsNamed) {
  TinyGeometry g;
  g.draft_experts = 8;
  const TinyModel all(g);
  for (const auto& t : all.tensors) {
    if (t.name == "output.weight") continue;             // tied embeddings
    if (t.name.starts_with("blk.4.indexer.")) continue;  // the draft head attends densely
    TinyModel m(g);
    m.remove(t.name);
    expect_failure(m, {t.name}, t.name + " absent");
  }
}

TEST_F(HostileFile, EveryTensorOfAnotherShapeIsNamedOrNamesAnother) {
  TinyGeometry g;
  g.draft_experts = 8;
  const TinyModel all(g);
  for (const auto& t : all.tensors) {
    if (t.name == "per_layer_token_embd.weight" || t.name.starts_with("blk.4.indexer.")) continue;
    TinyModel longer(g);
    TinyModel::Tensor& edited = longer.tensor(t.name);
    edited.shape.ne[edited.shape.n_dims > 1 ? 1 : 0] += 1;
    expect_failure(longer, {"expected"}, t.name + " with one more");
    if (t.shape.n_dims < 2) continue;
    TinyModel deeper(g);
    deeper.tensor(t.name).shape.ne[3] = 2;
    deeper.tensor(t.name).shape.n_dims = 4;
    expect_failure(deeper, {t.name, "expected"}, t.name + " twice");
  }
}

TEST_F(HostileFile, ATransposedTensorIsAnError) {
  for (const char* name :
       {"blk.0.ssm_conv1d.weight", "blk.1.ple_conv1d.weight", "blk.0.hc_attn_inject.weight", "blk.2.ssm_beta.weight"}) {
    TinyModel m;
    TinyModel::Tensor& t = m.tensor(name);
    t.type = DType::F32;
    std::swap(t.shape.ne[0], t.shape.ne[1]);
    expect_failure(m, {name, "expected"}, name);
  }
}

TEST_F(HostileFile, MissingAndMisshapenTensorsAreReportedTogether) {
  TinyModel m;
  m.remove("blk.0.attn_qkv.weight");
  m.remove("blk.3.attn_q_norm.weight");
  m.tensor("blk.2.ssm_a").shape.ne[0] = 7;
  m.tensor("output_hc_up.weight").shape.ne[1] += 1;
  expect_failure(m,
                 {"2 missing tensors: blk.0.attn_qkv.weight, blk.3.attn_q_norm.weight", "2 tensors of the wrong shape",
                  "blk.2.ssm_a is 7, expected 6 values", "output_hc_up.weight is 32 x 129, expected 32 x 128"},
                 "four wrong tensors");
}

TEST_F(HostileFile, AModelOfManyBlocksWithoutTensorsIsAShortError) {
  TinyModel m;
  m.set<uint32_t>("block_count", 512);
  m.erase("attention.compress_ratios");
  expect_failure(m, {"missing tensors", "more"}, "512 blocks");
}

TEST_F(HostileFile, AGeometryFarBeyondItsTensorsAllocatesNothing) {
  const Case cases[] = {
      {"expected", number("attention.head_count", 4096)},
      {"expected", number("hyper_connection.count", 64)},
      {"expected", number("embedding_length", 1 << 16)},
      {"expected", number("hyper_connection.low_rank", 1 << 16)},
      {"expected", number("ssm.conv_kernel", 64)},
      {"expected",
       [](TinyModel& m) {
         m.set<uint32_t>("ssm.state_size", 4096), m.set<uint32_t>("ssm.inner_size", 1 << 22),
             m.set<uint32_t>("ssm.time_step_rank", 4096);
       }},
      {"expected", number("embedding_length_per_layer_input", 1 << 16)},
      {"expected",
       [](TinyModel& m) {
         m.set<uint32_t>("attention.key_length", 4096), m.set<uint32_t>("attention.value_length", 4096);
       }},
  };
  for (const Case& c : cases) {
    TinyModel m;
    c.edit(m);
    expect_failure(m, {c.key}, "huge geometry");
  }
}

TEST_F(HostileFile, ExternalScalesMustFit) {
  TinyModel many, stack;
  many.add("blk.0.attn_qkv.scale", DType::F32, {2});
  expect_failure(many, {"blk.0.attn_qkv.scale has 2 values, expected 1"}, "two scales of a matrix");
  stack.add("blk.0.ffn_up_exps.scale", DType::F32, {7});
  expect_failure(stack, {"blk.0.ffn_up_exps.scale has 7 values, expected 8"}, "seven scales of eight experts");
}

TEST_F(HostileFile, AFileWithoutTheTableOrTheEmbeddingSaysWhatItMayBe) {
  TinyModel no_table, no_embedding;
  no_table.remove("per_layer_token_embd.weight");
  expect_failure(no_table, {"per_layer_token_embd.weight is missing", "shard"}, "no table");
  no_embedding.remove("token_embd.weight");
  expect_failure(no_embedding, {"token_embd.weight is missing", "draft head"}, "no embedding");
}

TEST_F(HostileFile, TheUneditedFileLoads) {
  TinyModel m;
  EXPECT_TRUE(failure(m).ok());
}

}  // namespace
}  // namespace strata
