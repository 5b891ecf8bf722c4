#include "model/weights.h"

#include <gtest/gtest.h>

#include "model/tiny_model.h"

namespace strata {
namespace {

using testing::TinyGeometry;
using testing::TinyModel;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TinyGeometry with_draft(int experts) {
  TinyGeometry g;
  g.draft_experts = experts;
  return g;
}

std::shared_ptr<const Model> load(TinyModel& m) {
  const TempDir dir;  // the map keeps the file alive
  m.write(dir.path("m.gguf"));
  return load_model(dir.path("m.gguf"), "").value();
}

TEST(LoadModel, FindsEveryTensorAndLeavesMatricesInTheMap) {
  TinyModel m;
  const auto model = load(m);
  EXPECT_EQ(model->blocks.size(), 4u);
  EXPECT_EQ(model->embed.data, model->file->find_tensor("token_embd.weight")->data);
  EXPECT_EQ(model->head.data, model->file->find_tensor("output.weight")->data);
  EXPECT_EQ(model->ngram_table.data, model->file->find_tensor("per_layer_token_embd.weight")->data);
  EXPECT_EQ(model->blocks[0].gdn.qkv.data, model->file->find_tensor("blk.0.attn_qkv.weight")->data);
  EXPECT_EQ(model->blocks[3].attention.q.data, model->file->find_tensor("blk.3.attn_q.weight")->data);
  EXPECT_TRUE(model->notes.empty()) << model->notes.front();
  EXPECT_FALSE(model->draft.has_value());
  EXPECT_EQ(model->n_expert_layers(), 4);
}

TEST(LoadModel, SmallTensorsBecomeFloatsOfTheirValues) {
  TinyModel m;
  m.retype("blk.0.ssm_norm.weight", DType::F16);
  const auto model = load(m);
  const auto norm = m.values("blk.0.ssm_norm.weight"), conv = m.values("blk.1.ple_conv1d.weight");
  EXPECT_TRUE(std::equal(norm.begin(), norm.end(), model->blocks[0].gdn.norm));
  EXPECT_TRUE(std::equal(conv.begin(), conv.end(), model->blocks[1].ngram.conv));
  uint64_t bytes = 0;
  for (const auto& v : model->small) bytes += v.size() * sizeof(float);
  EXPECT_EQ(model->float_bytes, bytes);
}

TEST(LoadModel, WithoutAnOutputMatrixTheEmbeddingIsTheHead) {
  TinyModel m;
  m.remove("output.weight");
  const auto model = load(m);
  EXPECT_EQ(model->head.data, model->embed.data);
}

TEST(LoadModel, AFusedStackHoldsGateRowsThenUpRows) {
  TinyModel m;
  for (int b = 0; b < 4; ++b) {
    const std::string p = TinyModel::block_prefix(b);
    m.remove(p + "ffn_gate_exps.weight");
    m.remove(p + "ffn_up_exps.weight");
    m.add(p + "ffn_gate_up_exps.weight", DType::IQ4_NL, {64, 64, 8});
  }
  const auto model = load(m);
  const ExpertTensors& e = model->blocks[2].experts;
  const size_t half = 32 * row_bytes(DType::IQ4_NL, 64);
  EXPECT_EQ(e.gate.stride, 2 * half);
  EXPECT_EQ(e.up.stride, 2 * half);
  EXPECT_EQ(e.up.data - e.gate.data, static_cast<std::ptrdiff_t>(half));
}

TEST(LoadModel, TensorsThatNothingUsesAreNoted) {
  TinyModel m;
  m.add("blk.2.mystery.weight", DType::F32, {4});
  m.add("rope_freqs.weight", DType::F32, {4});
  const auto model = load(m);
  ASSERT_EQ(model->notes.size(), 1u);
  EXPECT_EQ(model->notes[0], "m.gguf: 2 tensors are not used, the first is blk.2.mystery.weight");
}

TEST(LoadModel, ADraftHeadInsideTheFileFollowsTheTrunk) {
  TinyModel m(with_draft(16));
  const auto model = load(m);
  ASSERT_TRUE(model->draft.has_value());
  EXPECT_TRUE(model->config.has_draft_head);
  EXPECT_EQ(model->config.blocks.size(), 4u);
  EXPECT_EQ(model->n_expert_layers(), 5);
  EXPECT_EQ(model->block(LayerId(4)).config.n_experts, 16);
  EXPECT_EQ(model->block(LayerId(3)).config.n_experts, 8);
  EXPECT_EQ(model->draft->block.config.ordinal, 1);  // after the trunk's one attention block
  EXPECT_EQ(model->draft->head.data, model->head.data);
  EXPECT_EQ(model->draft->block.attention.budget_blocks, 0);
  EXPECT_TRUE(model->notes.empty()) << model->notes.front();
}

TEST(LoadModel, ADraftHeadInItsOwnFileSharesTheTrunksTables) {
  const TempDir dir;
  TinyModel trunk, head(with_draft(16));
  trunk.write(dir.path("trunk.gguf"));
  head.write_draft(dir.path("head.gguf"));
  const auto model = load_model(dir.path("trunk.gguf"), dir.path("head.gguf")).value();
  ASSERT_TRUE(model->draft.has_value());
  EXPECT_EQ(model->config.draft.n_experts, 16);
  EXPECT_EQ(model->draft->head.data, model->head.data);
  EXPECT_NE(model->draft_file, nullptr);
  EXPECT_TRUE(model->notes.empty()) << model->notes.front();
}

TEST(LoadModel, ADraftFileTakesTheTrunksOwnHeadsPlace) {
  const TempDir dir;
  TinyModel trunk(with_draft(8)), head(with_draft(16));
  trunk.write(dir.path("trunk.gguf"));
  head.write_draft(dir.path("head.gguf"));
  const auto model = load_model(dir.path("trunk.gguf"), dir.path("head.gguf")).value();
  EXPECT_EQ(model->config.draft.n_experts, 16);
}

TEST(LoadModel, ADraftFileMayBringItsOwnTables) {
  const TempDir dir;
  TinyModel trunk, head(with_draft(16));
  head.add("blk.4.nextn.embed_tokens.weight", DType::Q8_0, {64, 96});
  head.add("blk.4.nextn.shared_head_head.weight", DType::Q8_0, {64, 96});
  trunk.write(dir.path("trunk.gguf"));
  head.write_draft(dir.path("head.gguf"));
  const auto model = load_model(dir.path("trunk.gguf"), dir.path("head.gguf")).value();
  EXPECT_EQ(model->draft->head.data, model->draft_file->find_tensor("blk.4.nextn.shared_head_head.weight")->data);
  EXPECT_TRUE(model->notes.empty()) << model->notes.front();
}

// The two halves side by side are the matrix that other files store joined.
TEST(LoadModel, TheDraftHeadsProjectionMayComeInTwoHalves) {
  TinyModel m(with_draft(8));
  const auto joined = m.values("blk.4.nextn.eh_proj.weight");
  std::vector<float> embed, hidden;
  for (size_t r = 0; r < 64; ++r) {
    embed.insert(embed.end(), joined.begin() + static_cast<std::ptrdiff_t>(r * 128),
                 joined.begin() + static_cast<std::ptrdiff_t>(r * 128 + 64));
    hidden.insert(hidden.end(), joined.begin() + static_cast<std::ptrdiff_t>(r * 128 + 64),
                  joined.begin() + static_cast<std::ptrdiff_t>(r * 128 + 128));
  }
  m.remove("blk.4.nextn.eh_proj.weight");
  m.add("blk.4.nextn.embed_proj.weight", DType::F32, {64, 64});
  m.add("blk.4.nextn.hidden_proj.weight", DType::F32, {64, 64});
  m.store("blk.4.nextn.embed_proj.weight", DType::F32, embed);
  m.store("blk.4.nextn.hidden_proj.weight", DType::F32, hidden);
  const auto model = load(m);
  const Weight& proj = model->draft->entry.proj;
  ASSERT_EQ(proj.cols, 128);
  ASSERT_EQ(proj.rows, 64);
  for (int64_t r = 0; r < 64; ++r) {
    std::vector<float> row(128);
    dequantise_row(proj.type, proj.row(r), 128, row.data());
    EXPECT_TRUE(std::equal(row.begin(), row.end(), joined.begin() + r * 128)) << "row " << r;
  }
}

// The second half must not be read with the size of the first.
TEST(LoadModel, HalvesOfDifferentTypesAreAnError) {
  for (const bool first_is_wider : {true, false}) {
    TinyModel m(with_draft(8));
    m.remove("blk.4.nextn.eh_proj.weight");
    m.add("blk.4.nextn.embed_proj.weight", first_is_wider ? DType::F32 : DType::Q4_0, {64, 64});
    m.add("blk.4.nextn.hidden_proj.weight", first_is_wider ? DType::Q4_0 : DType::F32, {64, 64});
    const TempDir dir;
    m.write(dir.path("m.gguf"));
    const auto loaded = load_model(dir.path("m.gguf"), "");
    ASSERT_FALSE(loaded.ok());
    EXPECT_TRUE(contains(loaded.status().message(), "embed_proj and hidden_proj differ")) << loaded.status().text();
  }
}

TEST(LoadModel, AFileThatIsNoModelSaysSo) {
  const TempDir dir;
  EXPECT_EQ(load_model(dir.path("absent.gguf"), "").status().code(), Code::not_found);

  TinyModel other;
  other.set_text("general.architecture", "llama");
  other.write(dir.path("other.gguf"));
  const Status unknown = load_model(dir.path("other.gguf"), "").status();
  EXPECT_EQ(unknown.text(), "other.gguf: architecture 'llama' is not supported; this build runs: qwen4exp");

  TinyModel part;
  part.erase("general.architecture");
  part.write(dir.path("part.gguf"));
  const Status no_key = load_model(dir.path("part.gguf"), "").status();
  EXPECT_EQ(no_key.text(),
            "part.gguf: no architecture key (general.architecture), so it is no model by itself; if it is a part of a "
            "model, name the model's main file");

  TinyModel number;
  number.erase("general.architecture");
  number.set<uint32_t>("general.architecture", 4);
  number.write(dir.path("number.gguf"));
  const Status wrong_type = load_model(dir.path("number.gguf"), "").status();
  EXPECT_TRUE(contains(wrong_type.text(), "key 'general.architecture' is u32, expected string")) << wrong_type.text();
}

TEST(LoadModel, ADraftFileThatDoesNotFitSaysWhy) {
  const TempDir dir;
  TinyModel trunk;
  trunk.write(dir.path("trunk.gguf"));
  const auto error = [&](TinyModel& head) {
    head.write_draft(dir.path("head.gguf"));
    const auto loaded = load_model(dir.path("trunk.gguf"), dir.path("head.gguf"));
    return loaded.ok() ? std::string("loaded") : loaded.status().text();
  };
  EXPECT_TRUE(contains(load_model(dir.path("trunk.gguf"), dir.path("trunk.gguf")).status().text(),
                       "trunk.gguf: holds no draft head"));
  EXPECT_EQ(load_model(dir.path("trunk.gguf"), dir.path("none.gguf")).status().code(), Code::not_found);

  TinyModel architecture(with_draft(8));
  architecture.set_text("general.architecture", "llama");
  EXPECT_TRUE(contains(error(architecture), "head.gguf: architecture 'llama' is not supported"));

  TinyGeometry longer = with_draft(8);
  longer.blocks = 8;
  TinyModel blocks(longer);
  EXPECT_TRUE(contains(error(blocks), "head.gguf: the draft head is block 8, the model has 4 blocks")) << error(blocks);

  TinyGeometry wider = with_draft(8);
  wider.d_model = 128;
  TinyModel width(wider);
  EXPECT_TRUE(contains(error(width), "head.gguf: the draft head's embedding_length is 128, the model's 64"))
      << error(width);

  TinyModel theta(with_draft(8));
  theta.set<float>("rope.freq_base", 5000.0f);
  EXPECT_TRUE(contains(error(theta), "rope.freq_base")) << error(theta);

  TinyModel missing(with_draft(8));
  missing.remove("blk.4.attn_k.weight");
  missing.remove("blk.4.nextn.enorm.weight");
  EXPECT_TRUE(contains(error(missing), "head.gguf: 2 missing tensors: blk.4.attn_k.weight, blk.4.nextn.enorm.weight"))
      << error(missing);

  TinyModel vocabulary(with_draft(8));
  vocabulary.add("blk.4.nextn.embed_tokens.weight", DType::Q8_0, {64, 95});
  EXPECT_TRUE(contains(error(vocabulary), "blk.4.nextn.embed_tokens.weight is 64 x 95, expected 64 x 96"));
}

TEST(BytesPerToken, CountDenseWeightsUsedExpertsAndTableRows) {
  TinyGeometry g;
  g.dense = g.expert_in = g.expert_out = g.small = DType::F32;
  TinyModel m(g);
  const auto model = load(m);
  // Vectors and convolutions do not count; of the embedding one row, of eight experts three.
  const auto small = [](const std::string& name) {
    for (const char* part : {"attn_q_norm", "attn_k_norm", "indexer.q_norm", "indexer.k_norm", "ssm_norm", "ssm_dt",
                             "conv1d", "ple_norm"}) {
      if (contains(name, part)) return true;
    }
    return name.ends_with("ssm_a");
  };
  uint64_t values = 64;
  for (const TinyModel::Tensor& t : m.tensors) {
    if (t.name == "token_embd.weight" || t.name == "per_layer_token_embd.weight" || small(t.name)) continue;
    values += static_cast<uint64_t>(t.shape.elems()) * (contains(t.name, "_exps.") ? 3 : 8) / 8;
  }
  EXPECT_EQ(bytes_per_token(*model), values * 4 + 4 * row_bytes(DType::IQ4_NL, 32));
}

TEST(Fingerprint, IsThatOfTheContentWhereverItLies) {
  TinyModel a, b;
  EXPECT_EQ(fingerprint(*load(a)), fingerprint(*load(b)));
}

TEST(Fingerprint, ChangesWithWeightsKeysAndShapes) {
  TinyModel base;
  const uint64_t want = fingerprint(*load(base));
  TinyModel weight, theta, hash, experts, seed([] {
    TinyGeometry g;
    g.seed = 2;
    return g;
  }());
  weight.bytes("blk.2.ffn_up_exps.weight").front() ^= std::byte{1};
  theta.set<float>("rope.freq_base", 20000.0f);
  hash.set_array<uint64_t>("ple.layer_multipliers", {5, 7, 9});
  experts.set<uint32_t>("expert_used_count", 2);
  for (TinyModel* m : {&weight, &theta, &hash, &experts, &seed}) EXPECT_NE(fingerprint(*load(*m)), want);
}

TEST(Fingerprint, DoesNotDependOnTheName) {
  TinyModel base, renamed;
  renamed.set_text("general.name", "another name");
  EXPECT_EQ(fingerprint(*load(base)), fingerprint(*load(renamed)));
}

TEST(Fingerprint, ChangesWithTheDraftHead) {
  const TempDir dir;
  TinyModel trunk, head(with_draft(8));
  trunk.write(dir.path("trunk.gguf"));
  head.write_draft(dir.path("a.gguf"));
  head.bytes("blk.4.attn_k.weight").back() ^= std::byte{1};
  head.write_draft(dir.path("b.gguf"));
  const auto of = [&](const std::string& draft) {
    return fingerprint(*load_model(dir.path("trunk.gguf"), draft).value());
  };
  EXPECT_NE(of(dir.path("a.gguf")), of(dir.path("b.gguf")));
  EXPECT_NE(of(dir.path("a.gguf")), of(""));
}

}  // namespace
}  // namespace strata
