// Files of many geometries on both devices: they load, run, and the two implementations agree; files that say the same
// in another way give the same bits.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/model_harness.h"
#include "model/tiny_model.h"

namespace strata {
namespace {

using testing::Harness;
using testing::TinyGeometry;
using testing::TinyModel;

using Rows = std::vector<std::vector<float>>;

std::vector<TokenId> some_tokens(int n, int vocab) {
  std::vector<TokenId> out;
  for (int i = 0; i < n; ++i) out.emplace_back((i * i * 7 + 3 * i + 1) % vocab);
  return out;
}

// Logits of the last prompt token and of a few decoded ones. 40 tokens are more than an indexer's budget.
Rows run(Harness& h, int prompt = 40) {
  Rows out;
  const auto s = h.sequence();
  const auto tokens = some_tokens(prompt + 3, h.model->config.vocab);
  out.push_back(h.read(*s, std::span(tokens).first(static_cast<size_t>(prompt))));
  for (int i = 0; i < 3; ++i) out.push_back(h.decode(*s, tokens[static_cast<size_t>(prompt + i)]));
  return out;
}

Rows run(TinyModel& m, const std::string& device) {
  const TempDir dir;
  m.write(dir.path("m.gguf"));
  Harness h(device, dir.path("m.gguf"), 0, "f32", "", 0, 1);
  return run(h);
}

double worst_difference(const Rows& a, const Rows& b) {
  double worst = 0;
  for (size_t r = 0; r < a.size(); ++r) {
    for (size_t i = 0; i < a[r].size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(a[r][i]) - b[r][i]));
  }
  return worst;
}

// Weights in float32: sums are added in another order. Block formats, a part of the range of the logits: the cpu rounds
// what they are multiplied with to int8, 0.5 % in a product, some twenty products deep.
constexpr double kFloatBound = 2e-3, kBlockBound = 0.08;

void expect_both_devices_agree(TinyModel& m, bool blocks = true) {
  const Rows plain = run(m, "plain"), cpu = run(m, "cpu");
  double least = INFINITY, most = -INFINITY;
  for (const auto& row : plain) {
    for (const float v : row) {
      ASSERT_TRUE(std::isfinite(v));
      least = std::min<double>(least, v), most = std::max<double>(most, v);
    }
  }
  EXPECT_GT(most - least, 0.1) << "logits say nothing";
  EXPECT_LE(worst_difference(plain, cpu), blocks ? kBlockBound * (most - least) : kFloatBound);
  EXPECT_NE(plain[1], plain[2]);
}

struct Variation {
  const char* name;
  std::function<void(TinyGeometry&)> geometry;
  std::function<void(TinyModel&)> edit = [](TinyModel&) {};
};

std::ostream& operator<<(std::ostream& out, const Variation& v) {
  return out << v.name;
}

const Variation kVariations[] = {
    {"as_it_is", [](TinyGeometry&) {}},
    {"one_key_head", [](TinyGeometry& g) { g.kv_heads = 1; }},
    {"a_key_head_for_each_head", [](TinyGeometry& g) { g.kv_heads = 4; }},
    {"one_head", [](TinyGeometry& g) { g.heads = g.kv_heads = 1, g.head_dim = 32; }},
    {"three_streams", [](TinyGeometry& g) { g.streams = 3; }},
    {"four_streams", [](TinyGeometry& g) { g.streams = 4; }},
    {"a_vocabulary_of_one_more_than_a_tile", [](TinyGeometry& g) { g.vocab = 33; }},
    {"a_vocabulary_of_1000", [](TinyGeometry& g) { g.vocab = 1000; }},
    {"attention_everywhere", [](TinyGeometry& g) { g.interval = 1; }},
    {"attention_nowhere", [](TinyGeometry& g) { g.interval = 5; }},
    {"every_third_block_attends", [](TinyGeometry& g) { g.blocks = 6, g.interval = 3; }},
    {"a_list_of_recurrent_layers", [](TinyGeometry& g) { g.interval = 2; },
     [](TinyModel& m) {
       m.erase("full_attention_interval");
       m.set_array<bool>("attention.recurrent_layers", {true, false, true, false});
     }},
    {"no_ngrams", [](TinyGeometry& g) { g.ngram_size = 0; }},
    {"two_grams_only", [](TinyGeometry& g) { g.ngram_size = 2; }},
    {"up_to_four_grams", [](TinyGeometry& g) { g.ngram_size = 4; }},
    {"ngrams_in_an_attention_block", [](TinyGeometry& g) { g.interval = 2; }},
    {"dense_attention", [](TinyGeometry& g) { g.ratio = 0; }},
    {"blocks_of_8", [](TinyGeometry& g) { g.ratio = 8; }},
    {"blocks_of_1", [](TinyGeometry& g) { g.ratio = 1; }},
    {"blocks_of_64", [](TinyGeometry& g) { g.ratio = 64, g.top_k = 64; }},
    {"a_budget_that_is_no_multiple", [](TinyGeometry& g) { g.top_k = 19; }},
    {"a_budget_beyond_the_context", [](TinyGeometry& g) { g.top_k = 4096; }},
    {"one_block_of_budget", [](TinyGeometry& g) { g.top_k = 4; }},
    {"three_rotary_sections", [](TinyGeometry&) {},
     [](TinyModel& m) {
       m.set_array<int32_t>("rope.dimension_sections", {2, 1, 1});
     }},
    {"rotation_of_whole_heads", [](TinyGeometry& g) { g.rope_dims = 16; }},
    {"as_many_value_heads_as_key_heads", [](TinyGeometry& g) { g.k_heads = g.v_heads = 4; }},
    {"a_convolution_of_two", [](TinyGeometry& g) { g.conv_kernel = 2; }},
    {"a_convolution_of_nine", [](TinyGeometry& g) { g.conv_kernel = 9; }},
    {"all_experts_used", [](TinyGeometry& g) { g.used = 8; }},
    {"one_expert_of_one", [](TinyGeometry& g) { g.experts = g.used = 1; }},
    {"a_rank_of_one", [](TinyGeometry& g) { g.rank = 1, g.small = DType::F32; }},
    {"odd_widths",
     [](TinyGeometry& g) {
       g.d_model = 50, g.head_dim = 10, g.rope_dims = 6, g.index_dim = 7, g.gdn_dim = 5, g.width = 9,
       g.shared_width = 11;
       g.rank = 7, g.ngram_width = 32, g.vocab = 37;
       g.dense = g.expert_in = g.expert_out = g.small = DType::F32;
     }},
    {"tied_embeddings", [](TinyGeometry&) {}, [](TinyModel& m) { m.remove("output.weight"); }},
    {"experts_that_differ_by_layer", [](TinyGeometry&) {},
     [](TinyModel& m) {
       const std::string p = TinyModel::block_prefix(2);
       for (const char* name : {"ffn_gate_exps.weight", "ffn_up_exps.weight"})
         m.tensor(p + name).shape.ne = {64, 96, 5, 1};
       m.tensor(p + "ffn_down_exps.weight").shape.ne = {96, 64, 5, 1};
       m.tensor(p + "ffn_gate_inp.weight").shape.ne[1] = 5;
       m.tensor(p + "ffn_gate_exps.weight").type = DType::Q5_0;
       m.tensor(p + "ffn_up_exps.weight").type = DType::Q2_0;
       m.tensor(p + "ffn_down_exps.weight").type = DType::Q8_0;
     }},
    {"values_wider_than_keys_in_the_delta_net", [](TinyGeometry&) {},
     [](TinyModel& m) {
       m.set<uint32_t>("ssm.inner_size", 6 * 32);
       for (int b = 0; b < 3; ++b) {
         const std::string p = TinyModel::block_prefix(b);
         m.tensor(p + "attn_qkv.weight").shape.ne[1] = 2 * 2 * 16 + 6 * 32;
         m.tensor(p + "ssm_conv1d.weight").shape.ne[1] = 2 * 2 * 16 + 6 * 32;
         m.tensor(p + "attn_gate.weight").shape.ne[1] = 6 * 32;
         m.tensor(p + "ssm_out.weight").shape.ne[0] = 6 * 32;
         m.tensor(p + "ssm_norm.weight").shape.ne[0] = 32;
       }
     }},
};

class Geometry : public ::testing::TestWithParam<Variation> {};

TEST_P(Geometry, RunsAlikeOnBothDevices) {
  TinyGeometry g;
  GetParam().geometry(g);
  TinyModel m(g);
  GetParam().edit(m);
  expect_both_devices_agree(m, g.dense != DType::F32);
}

INSTANTIATE_TEST_SUITE_P(Variations, Geometry, ::testing::ValuesIn(kVariations),
                         [](const auto& info) { return info.param.name; });

class Format : public ::testing::TestWithParam<TypeTraits> {};

TEST_P(Format, ServesForEveryMatrixWhoseWidthAllows) {
  const DType type = GetParam().type;
  TinyGeometry g;
  g.blocks = 2, g.interval = 2, g.d_model = 256, g.vocab = 64, g.head_dim = 64, g.v_heads = 4, g.gdn_dim = 64;
  g.experts = 4, g.used = 2, g.width = g.shared_width = 256, g.ngram_width = 64;
  g.dense = g.expert_in = g.expert_out = type;
  TinyModel m(g);
  if (GetParam().block_elems <= 64) m.tensor("per_layer_token_embd.weight").type = type;
  for (auto& t : m.tensors) {
    if (t.name.ends_with("hc_attn_down.weight") || t.name.ends_with("hc_ffn_inject.weight")) t.type = type;
    if (t.name.ends_with("ffn_gate_inp.weight") || t.name.ends_with("ssm_beta.weight")) t.type = type;
  }
  expect_both_devices_agree(m);
}

std::vector<TypeTraits> every_type() {
  return {all_types().begin(), all_types().end()};
}
INSTANTIATE_TEST_SUITE_P(Types, Format, ::testing::ValuesIn(every_type()),
                         [](const auto& info) { return info.param.name; });

// --- Two ways to say the same -------------------------------------------------------------------------------------

class Same : public ::testing::TestWithParam<const char*> {
 protected:
  void expect_same(TinyModel& a, TinyModel& b) {
    const Rows of_a = run(a, GetParam()), of_b = run(b, GetParam());
    EXPECT_TRUE(of_a == of_b) << "differ by up to " << worst_difference(of_a, of_b);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Same, ::testing::Values("plain", "cpu"), [](const auto& info) { return info.param; });

TEST_P(Same, FusedExpertsAndSplitOnes) {
  TinyModel split, fused;
  for (int b = 0; b < 4; ++b) {
    const std::string p = TinyModel::block_prefix(b);
    const auto gate = split.bytes(p + "ffn_gate_exps.weight"), up = split.bytes(p + "ffn_up_exps.weight");
    const size_t each = gate.size() / 8;
    std::vector<std::byte> both;
    for (size_t e = 0; e < 8; ++e) {
      both.insert(both.end(), gate.begin() + static_cast<std::ptrdiff_t>(e * each),
                  gate.begin() + static_cast<std::ptrdiff_t>((e + 1) * each));
      both.insert(both.end(), up.begin() + static_cast<std::ptrdiff_t>(e * each),
                  up.begin() + static_cast<std::ptrdiff_t>((e + 1) * each));
    }
    fused.remove(p + "ffn_gate_exps.weight");
    fused.remove(p + "ffn_up_exps.weight");
    fused.add(p + "ffn_gate_up_exps.weight", DType::IQ4_NL, {64, 64, 8}).bytes = both;
  }
  expect_same(split, fused);
}

TEST_P(Same, TiedEmbeddingsAndAnEqualOutputMatrix) {
  TinyModel tied, copied;
  tied.remove("output.weight");
  copied.bytes("output.weight") = copied.bytes("token_embd.weight");
  expect_same(tied, copied);
}

// A factor of a power of two is exact wherever it is applied.
TEST_P(Same, AnExternalScaleAndValuesThatHoldIt) {
  TinyModel scaled, folded;
  const auto fold = [&](const std::string& name, const std::vector<float>& factors) {
    auto values = folded.values(name);
    const size_t each = values.size() / factors.size();
    for (size_t i = 0; i < values.size(); ++i) values[i] *= factors[i / each];
    folded.store(name, DType::F32, values);
    scaled.retype(name, DType::F32);
    const std::string scale = name.substr(0, name.size() - 6) + "scale";
    scaled.add(scale, DType::F32, {static_cast<int64_t>(factors.size())});
    scaled.store(scale, DType::F32, factors);
  };
  for (const char* name :
       {"token_embd.weight", "output.weight", "blk.0.attn_qkv.weight", "blk.0.ssm_out.weight", "blk.3.attn_q.weight",
        "blk.3.attn_k.weight", "blk.1.ple_key.weight", "blk.2.hc_ffn_down.weight", "blk.2.hc_ffn_inject.weight",
        "blk.2.ffn_gate_shexp.weight", "blk.2.ffn_down_shexp.weight", "blk.2.ffn_gate_inp_shexp.weight",
        "blk.1.ffn_gate_inp.weight", "per_layer_token_embd.weight"}) {
    fold(name, {0.5f});
  }
  const std::vector<float> by_expert{0.5f, 2, 1, 4, 0.25f, 1, 2, 0.5f};
  for (const char* name : {"blk.1.ffn_gate_exps.weight", "blk.1.ffn_up_exps.weight", "blk.1.ffn_down_exps.weight"})
    fold(name, by_expert);
  expect_same(scaled, folded);
}

// NVFP4 scale bytes: three bits of mantissa, so 8 more is twice the value.
TEST_P(Same, AScaledNvfp4FileAndOneWithLargerScaleBytes) {
  TinyGeometry g;
  g.dense = g.expert_in = DType::NVFP4;
  g.v_heads = 4;  // rows of 64
  TinyModel scaled(g), folded(g);
  for (const auto& t : scaled.tensors) {
    if (t.type != DType::NVFP4) continue;
    auto& bytes = folded.bytes(t.name);
    for (size_t at = 0; at < bytes.size(); at += 36) {
      for (size_t i = at; i < at + 4; ++i) {
        ASSERT_GE(static_cast<int>(bytes[i]), 8) << "subnormal";
        ASSERT_LT(static_cast<int>(bytes[i]), 0x70) << "overflow";
        bytes[i] = static_cast<std::byte>(static_cast<int>(bytes[i]) + 8);
      }
    }
  }
  std::vector<std::pair<std::string, int64_t>> scales;
  for (const auto& t : folded.tensors) {
    if (t.type == DType::NVFP4) scales.emplace_back(t.name.substr(0, t.name.size() - 6) + "scale", t.shape.ne[2]);
  }
  for (const auto& [name, n] : scales) {
    scaled.add(name, DType::F32, {n});
    scaled.store(name, DType::F32, std::vector<float>(static_cast<size_t>(n), 2.0f));
  }
  ASSERT_GT(scales.size(), 30u);
  expect_same(scaled, folded);
}

TEST_P(Same, SmallTensorsInAnyTypeThatHoldsTheirValues) {
  TinyModel narrow, wide;
  for (const auto& t : narrow.tensors) {
    const bool small = t.type == DType::F32 && t.shape.n_dims == 1;
    const bool hyper = t.name.find("hc_") != std::string::npos && t.shape.n_dims == 2;
    if (!small && !hyper) continue;
    const bool half = t.name.find("ffn") != std::string::npos;
    narrow.retype(t.name, half ? DType::F16 : DType::BF16);
    wide.store(t.name, DType::F32, narrow.values(t.name));
  }
  expect_same(narrow, wide);
}

TEST_P(Same, ThreeRotarySectionsAndFour) {
  TinyModel three, four;
  three.set_array<int32_t>("rope.dimension_sections", {2, 1, 1});
  expect_same(three, four);
}

TEST_P(Same, AnIntervalAndAListOfLayers) {
  TinyModel interval, list;
  list.erase("full_attention_interval");
  list.set_array<bool>("attention.recurrent_layers", {true, true, true, false});
  expect_same(interval, list);
}

TEST_P(Same, ABudgetThatIsNeverReachedAndDenseAttention) {
  TinyGeometry g;
  g.top_k = 512;
  TinyModel indexed(g), dense(g);
  dense.set_array<int32_t>("attention.compress_ratios", {0, 0, 0, 0});
  expect_same(indexed, dense);
}

// The budget matters: a model that selects differs from one that sees everything.
TEST_P(Same, ABudgetThatIsReachedIsNotDenseAttention) {
  TinyModel indexed, dense;
  dense.set_array<int32_t>("attention.compress_ratios", {0, 0, 0, 0});
  EXPECT_FALSE(run(indexed, GetParam()) == run(dense, GetParam()));
}

TEST_P(Same, WithAndWithoutADraftHeadTheTrunkIsTheSame) {
  TinyGeometry g;
  g.draft_experts = 16;
  TinyModel without, with(g);
  expect_same(without, with);
}

// Fewer experts in the trunk than in the draft head, inside the file and beside it.
TEST_P(Same, ADraftHeadInsideTheTrunkAndInItsOwnFile) {
  TinyGeometry g;
  g.experts = 256;
  TinyModel trunk(g);
  g.draft_experts = 512;
  TinyModel both(g);
  const TempDir dir;
  both.write(dir.path("both.gguf"));
  trunk.write(dir.path("trunk.gguf"));
  both.write_draft(dir.path("draft.gguf"));
  const auto drafted = [&](const std::string& path, const std::string& draft) {
    Harness h(GetParam(), path, 0, "f32", draft, 0, 1);
    EXPECT_EQ(h.model->config.draft.n_experts, 512);
    Rows out = run(h);
    const auto s = h.sequence();
    const auto tokens = some_tokens(21, 96);
    h.read(*s, std::span(tokens).first(20));
    const MatF32 streams = h.forward->activations().streams;
    const std::vector<float> wide(streams.data, streams.data + int64_t{20} * streams.cols);
    MatF32 given(const_cast<float*>(wide.data()), 7, streams.cols);
    EXPECT_TRUE(h.forward->draft(*s, 0, std::span(tokens).subspan(1, 7), given).ok());
    const MatF32 logits = h.forward->draft_logits(0, 7);
    for (int r = 0; r < 7; ++r) out.emplace_back(logits.row(r), logits.row(r) + logits.cols);
    return out;
  };
  const Rows inside = drafted(dir.path("both.gguf"), "");
  for (const auto& row : inside) {
    for (const float v : row) ASSERT_TRUE(std::isfinite(v));
  }
  EXPECT_TRUE(inside == drafted(dir.path("trunk.gguf"), dir.path("draft.gguf")));
}

}  // namespace
}  // namespace strata
