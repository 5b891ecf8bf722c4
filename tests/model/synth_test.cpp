#include "model/synth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include "model/synth_keys.h"
#include "model/weights.h"
#include "quant/reference.h"
#include "temp_dir.h"

namespace strata {
namespace {

SynthSpec preset(const std::string& name, const std::vector<std::string>& assignments = {}) {
  SynthSpec spec = synth_preset(name).value();
  for (const std::string& a : assignments) {
    const Status set = synth_set(spec, a);
    EXPECT_TRUE(set.ok()) << set.text();
  }
  return spec;
}

// The nano preset made smaller, for tests that write files.
SynthSpec small(const std::vector<std::string>& assignments = {}) {
  SynthSpec spec =
      preset("nano", {"layers=4", "vocab=512", "ngram-rows=4000", "ngram-width=64", "experts=16", "draft-experts=16"});
  for (const std::string& a : assignments) {
    const Status set = synth_set(spec, a);
    EXPECT_TRUE(set.ok()) << set.text();
  }
  return spec;
}

Result<SynthFiles> write(const SynthSpec& spec, const std::string& path, int threads = 2) {
  WorkerPool pool(threads);
  return write_synth(spec, path, pool, [](uint64_t, uint64_t) { return Status(); });
}

uint64_t bytes_of(const SynthTensor& t) {
  return checked_bytes(t.type, t.shape).value();
}

template <class Wanted>
uint64_t bytes_where(const std::vector<SynthTensor>& tensors, Wanted wanted) {
  uint64_t sum = 0;
  for (const SynthTensor& t : tensors) sum += wanted(t.name) ? bytes_of(t) : 0;
  return sum;
}

bool is_expert(const std::string& name) {
  return name.ends_with("_exps.weight");
}
bool is_table(const std::string& name) {
  return name == "per_layer_token_embd.weight";
}

std::vector<float> values_of(const SynthSpec& spec, const std::string& name) {
  const std::vector<SynthTensor> tensors = synth_tensors(spec).value();
  for (const SynthTensor& t : tensors) {
    if (t.name != name) continue;
    std::vector<std::byte> raw(bytes_of(t));
    fill_synth(spec, t, 0, raw);
    std::vector<float> out(static_cast<size_t>(t.shape.elems()));
    for (int64_t r = 0; r < t.shape.rows(); ++r) {
      dequantise_row(t.type, raw.data() + static_cast<size_t>(r) * row_bytes(t.type, t.shape.ne[0]), t.shape.ne[0],
                     out.data() + r * t.shape.ne[0]);
    }
    return out;
  }
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

TEST(SynthSpec, NumbersAndFormatsAreSetByName) {
  const SynthSpec s = preset("real", {"layers=4", "ngram-rows=4M", "context=1.5k", "rope-base=0.01G",
                                      "type.experts-in=IQ3_S,IQ2_XXS*3", "type.head=Q8_0"});
  EXPECT_EQ(s.layers, 4);
  EXPECT_EQ(s.ngram_rows, 4'000'000);
  EXPECT_EQ(s.context, 1500);
  EXPECT_EQ(s.rope_base, 10'000'000);
  EXPECT_EQ(s.experts_in, (TypeMap{DType::IQ3_S, DType::IQ2_XXS, DType::IQ2_XXS, DType::IQ2_XXS}));
  EXPECT_EQ(s.head_type, TypeMap{DType::Q8_0});
}

TEST(SynthSpec, EveryKeyIsShownAsItMayBeSet) {
  for (const std::string& name : synth_preset_names()) {
    SynthSpec spec = preset(name);
    std::set<std::string> names;
    for (const SynthKey& key : synth_keys(spec)) {
      EXPECT_TRUE(names.insert(key.name).second) << key.name;
      const Status set = synth_set(spec, key.name + "=" + key.value);
      EXPECT_TRUE(set.ok()) << set.text();
    }
    const auto before = synth_keys(preset(name)), after = synth_keys(spec);
    for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i].value, after[i].value) << before[i].name;
  }
}

TEST(SynthSpec, ThePageListsEveryKey) {
  std::ifstream file(STRATA_SOURCE_DIR "/docs/synthetic-models.md");
  std::stringstream page;
  page << file.rdbuf();
  const auto real = synth_keys(preset("real")), nano = synth_keys(preset("nano"));
  for (size_t i = 0; i < real.size(); ++i) {
    const std::string line =
        fmt::format("\n| `{}` | {} | {} | {} |\n", real[i].name, real[i].meaning, real[i].value, nano[i].value);
    EXPECT_NE(page.str().find(line), std::string::npos) << "docs/synthetic-models.md has no line" << line;
  }
}

TEST(SynthSpec, WrongAssignmentsAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"layers", "'layers' is not KEY=VALUE; for example layers=4"},
      {"layer=4", "there is no key 'layer'; did you mean layers?"},
      {"zzz=4", "there is no key 'zzz'; use layers, "},
      {"=4", "there is no key ''"},
      {"layers=", "layers is '', expected a whole number"},
      {"layers=four", "layers is 'four', expected a whole number"},
      {"layers=1.5", "layers is '1.5', expected a whole number"},
      {"layers=1e2", "layers is '1e2', expected a whole number"},
      {"layers=nan", "layers is 'nan', expected a whole number"},
      {"layers=0", "layers is 0, expected 1 to 511"},
      {"layers=-1", "layers is -1, expected 1 to 511"},
      {"layers=inf", "layers is inf, expected 1 to 511"},
      {"layers=1G", "layers is 1G, expected 1 to 511"},
      {"vocab=100", "vocab is 100, expected 320 to"},
      {"type.experts-in=Q9_0", "type.experts-in: 'Q9_0' is no format; use F32, "},
      {"type.experts-in=", "type.experts-in: '' is no format"},
      {"type.experts-in=Q2_0,", "type.experts-in: '' is no format"},
      {"type.experts-in=Q2_0*0", "type.experts-in (after *) is 0, expected 1 to 512"},
      {"type.experts-in=Q2_0*512,Q2_0", "type.experts-in has more than 512 entries"},
      {"type.head=Q2_0,Q4_0", "type.head has 2 formats"},
  };
  for (const auto& [assignment, message] : cases) {
    SynthSpec spec;
    const Status set = synth_set(spec, assignment);
    EXPECT_NE(set.text().find(message), std::string::npos) << assignment << ": " << set.text();
  }
  EXPECT_NE(synth_preset("huge").status().text().find("no preset 'huge'; use real"), std::string::npos);
}

TEST(SynthSpec, NumbersThatDoNotMakeAModelAreRefused) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"heads=5"}, "heads=5 is no multiple of kv-heads=2"},
      {{"rope-dims=33"}, "rope-dims=33 is odd"},
      {{"rope-dims=66"}, "above head-dim=64"},
      {{"index-block=3"}, "index-block=3 is no divisor of 64"},
      {{"index-budget=2"}, "above index-budget=2"},
      {{"index-dim=16"}, "index-dim=16 is below rope-dims=32"},
      {{"gdn-key-heads=3"}, "gdn-value-heads=4 is no multiple of gdn-key-heads=3"},
      {{"experts=7"}, "experts-used=8 is above the 7 experts"},
      {{"ngram-rows=20"}, "ngram-rows=20 is too few for 8 heads"},
      {{"type.experts-out=IQ3_S"}, "blk.0.ffn_down_exps.weight as IQ3_S"},
      {{"type.ngram-table=Q2_0"}, "per_layer_token_embd.weight as Q2_0"},
      {{"embedding=300"}, "choose another format for it, or another width"},
  };
  for (const auto& [assignments, message] : cases) {
    const auto tensors = synth_tensors(preset("nano", assignments));
    ASSERT_FALSE(tensors.ok()) << message;
    EXPECT_EQ(tensors.status().code(), Code::invalid_argument);
    EXPECT_NE(tensors.status().text().find(message), std::string::npos) << tensors.status().text();
  }
  SynthSpec spec = preset("nano", {"ngram-rows=0"});
  spec.split = true;
  EXPECT_NE(synth_tensors(spec).status().text().find("no table to split off"), std::string::npos);
  spec = preset("nano");
  spec.router_skew = 5;
  EXPECT_EQ(synth_tensors(spec).status().code(), Code::out_of_range);
}

TEST(SynthTensors, TheRealModelHasTheParametersOfThePublishedOne) {
  const auto tensors = synth_tensors(preset("real")).value();
  EXPECT_EQ(tensors.size(), 1224u);
  double values = 0, table = 0;
  for (const SynthTensor& t : tensors) (is_table(t.name) ? table : values) += static_cast<double>(t.shape.elems());
  EXPECT_EQ(table, 51'200'245'760.0);
  EXPECT_NEAR(values, 125.7e9, 0.05e9);
  EXPECT_EQ(bytes_where(tensors, is_table), 28'800'138'240u);
  EXPECT_EQ(bytes_where(tensors, is_expert), uint64_t{48} * 512 * 2'176'000);
}

TEST(SynthTensors, ThePublishedMixHasThePublishedSizes) {
  const auto tensors = synth_tensors(preset("gsq-iq3_xxs")).value();
  EXPECT_EQ(tensors.size(), 1224u);
  EXPECT_EQ(bytes_where(tensors, is_expert), 42'912'972'800u);
  // The file without the table, of which some MB are keys; and what one token reads: 10 of 512 experts, no token table.
  const uint64_t trunk = bytes_where(tensors, [](const std::string& name) { return !is_table(name); });
  EXPECT_NEAR(static_cast<double>(trunk), 47'039'860'096.0, 0.002 * 47e9);
  const uint64_t rest = bytes_where(tensors, [](const std::string& name) {
    return !is_table(name) && !is_expert(name) && name != "token_embd.weight";
  });
  EXPECT_NEAR(static_cast<double>(rest) + 42'912'972'800.0 * 10 / 512, 4.68e9, 0.02 * 4.68e9);
}

TEST(SynthTensors, ExpertsOfOneFileDifferInSizeAlsoInItsFirstTwoBlocks) {
  for (const int layers : {2, 48}) {
    const auto tensors = synth_tensors(preset("gsq-iq3_xxs", {"layers=" + std::to_string(layers)})).value();
    std::map<std::string, uint64_t> each;
    for (const SynthTensor& t : tensors) {
      if (is_expert(t.name)) each[t.name.substr(0, t.name.find('.', 4))] += bytes_of(t) / 512;
    }
    std::set<uint64_t> sizes;
    for (const auto& [block, bytes] : each) sizes.insert(bytes);
    EXPECT_EQ(*sizes.begin(), 1'305'600u) << "IQ2_XXS and Q2_0";
    EXPECT_EQ(*sizes.rbegin(), 2'329'600u) << "IQ3_S and IQ4_NL";
  }
}

TEST(SynthKeys, TheNgramHashOfTheRealModelIsThePublishedOne) {
  const std::vector<uint64_t> rows = {20000003, 20000023, 20000033, 20000047, 20000059, 20000063, 20000069, 20000077,
                                      20000081, 20000093, 20000107, 20000147, 20000153, 20000159, 20000161, 20000171};
  EXPECT_EQ(ngram_head_rows(320'001'536, 16), rows);
  EXPECT_EQ(ngram_multipliers(3, 248320), (std::vector<uint64_t>{23703573157769, 20109073645365, 8052911324071}));
  EXPECT_EQ(first_control_id(248320), 248044);
}

TEST(SynthKeys, NgramHeadsAreDifferentPrimesThatFillTheTable) {
  for (const uint64_t rows : {400u, 1000u, 4000u, 50000u, 4000000u}) {
    const std::vector<uint64_t> heads = ngram_head_rows(rows, 16);
    ASSERT_EQ(heads.size(), 16u) << rows;
    EXPECT_EQ(std::set<uint64_t>(heads.begin(), heads.end()).size(), 16u);
    const uint64_t sum = std::accumulate(heads.begin(), heads.end(), uint64_t{0});
    EXPECT_LE(sum, rows);
    EXPECT_GE(sum, rows * 9 / 10) << rows;
    for (const uint64_t p : heads) {
      for (uint64_t d = 2; d * d <= p; ++d) ASSERT_NE(p % d, 0u) << p;
    }
  }
  EXPECT_TRUE(ngram_head_rows(380, 16).empty()) << "the first 16 primes are 381 together";
  EXPECT_FALSE(ngram_head_rows(381, 16).empty());
}

TEST(SynthTensors, AnyPieceOfATensorIsThatPieceOfTheWhole) {
  SynthSpec spec = small();
  spec.router_skew = 0.7;
  const std::vector<SynthTensor> tensors = synth_tensors(spec).value();
  for (const SynthTensor& t : tensors) {
    const auto block = static_cast<size_t>(traits(t.type).block_bytes);
    std::vector<std::byte> whole(std::min(bytes_of(t), block * 1000));
    fill_synth(spec, t, 0, whole);
    const size_t n = whole.size() / block, first = n / 3;
    std::vector<std::byte> piece((n - first) * block);
    fill_synth(spec, t, static_cast<int64_t>(first), piece);
    EXPECT_TRUE(std::equal(piece.begin(), piece.end(), whole.begin() + static_cast<std::ptrdiff_t>(first * block)))
        << t.name;
  }
}

TEST(SynthTensors, NormsAreAroundOneAndDecaysAreNegative) {
  const SynthSpec spec = small({"gdn-value-heads=64"});
  for (const float v : values_of(spec, "blk.0.hc_attn_norm.weight")) ASSERT_NEAR(v, 1, 0.2);
  const std::vector<float> decay = values_of(spec, "blk.0.ssm_a");
  const auto [least, most] = std::minmax_element(decay.begin(), decay.end());
  EXPECT_LT(*most, 0);
  EXPECT_GT(*most, -0.03f);
  EXPECT_LT(*least, -0.2f);
  EXPECT_GT(*least, -2.0f);
}

// Share of all choices that go to the fifth of the experts which is chosen most, over random inputs.
double share_of_the_busiest_fifth(double skew) {
  SynthSpec spec = preset("nano", {"experts=200", "experts-used=8"});
  spec.router_skew = skew;
  const std::vector<float> router = values_of(spec, "blk.0.ffn_gate_inp.weight");
  std::vector<int> uses(200);
  uint64_t state = 5;
  for (int n = 0; n < 1000; ++n) {
    std::vector<float> x(256);
    for (float& v : x) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      v = static_cast<float>(state >> 40) * 0x1p-23f - 1;
    }
    std::vector<std::pair<float, size_t>> logits;
    for (size_t e = 0; e < 200; ++e)
      logits.emplace_back(
          -std::inner_product(x.begin(), x.end(), router.begin() + static_cast<std::ptrdiff_t>(e * 256), 0.0f), e);
    std::partial_sort(logits.begin(), logits.begin() + 8, logits.end());
    for (size_t k = 0; k < 8; ++k) ++uses[logits[k].second];
  }
  std::sort(uses.rbegin(), uses.rend());
  return std::accumulate(uses.begin(), uses.begin() + 40, 0) / 8000.0;
}

TEST(SynthTensors, ALargerSkewMakesTheUseOfExpertsMoreUneven) {
  const double even = share_of_the_busiest_fifth(0), some = share_of_the_busiest_fifth(0.3),
               much = share_of_the_busiest_fifth(1);
  EXPECT_LT(even, 0.32) << "chance alone: a fifth and a little more";
  EXPECT_GT(some, even + 0.1);
  EXPECT_GT(much, some + 0.1);
  RecordProperty("shares", std::to_string(even) + " " + std::to_string(some) + " " + std::to_string(much));
}

TEST(SynthWrite, TheSameSpecGivesTheSameBytesWithAnyNumberOfThreads) {
  const TempDir dir;
  const SynthSpec spec = small();
  ASSERT_TRUE(write(spec, dir.path("a.gguf"), 1).ok());
  ASSERT_TRUE(write(spec, dir.path("b.gguf"), 3).ok());
  EXPECT_TRUE(dir.get("a.gguf") == dir.get("b.gguf"));
  SynthSpec other = spec;
  other.seed = 2;
  ASSERT_TRUE(write(other, dir.path("c.gguf")).ok());
  EXPECT_FALSE(dir.get("a.gguf") == dir.get("c.gguf"));
}

TEST(SynthWrite, EveryKindOfModelLoads) {
  const TempDir dir;
  for (const char* name : {"layers=1", "layers=2", "layers=7", "attention-interval=1", "attention-interval=2",
                           "index-block=0", "ngram-rows=0", "streams=2", "type.experts-in=IQ2_S,Q2_0,IQ1_M",
                           "type.experts-out=Q2_0,NVFP4,MXFP4", "type.mixer-in=NVFP4", "type.embedding=NVFP4",
                           "type.hyper=Q8_0", "type.router=NVFP4", "type.ngram-table=NVFP4", "ngram-heads=1"}) {
    for (const bool mtp : {false, true}) {
      SCOPED_TRACE(name);
      SynthSpec spec = small({name});
      spec.mtp = mtp;
      spec.split = mtp && spec.has_ngrams();
      spec.router_skew = mtp ? 0.5 : 0;
      const auto files = write(spec, dir.path("m.gguf"));
      ASSERT_TRUE(files.ok()) << files.status().text();
      const auto model = load_model(files->paths.front(), "");
      ASSERT_TRUE(model.ok()) << model.status().text();
      EXPECT_EQ((*model)->file->file_bytes(), files->bytes);
      EXPECT_EQ((*model)->file->tensors().size(), files->n_tensors);
      EXPECT_EQ((*model)->blocks.size(), static_cast<size_t>(spec.layers));
      EXPECT_EQ((*model)->draft.has_value(), mtp);
      EXPECT_TRUE((*model)->notes.empty()) << (*model)->notes.front();
    }
  }
}

TEST(SynthWrite, ASplitModelHasItsTableInTheSecondFile) {
  const TempDir dir;
  SynthSpec spec = small();
  ASSERT_TRUE(write(spec, dir.path("whole.gguf")).ok());
  spec.split = true;
  const auto files = write(spec, dir.path("m.gguf"));
  ASSERT_TRUE(files.ok()) << files.status().text();
  EXPECT_EQ(files->paths,
            (std::vector<std::string>{dir.path("m-00001-of-00002.gguf"), dir.path("m-00002-of-00002.gguf")}));
  EXPECT_EQ(files->paths, synth_paths(spec, dir.path("m.gguf")));
  const auto model = load_model(files->paths[1], "");
  ASSERT_TRUE(model.ok()) << model.status().text();
  EXPECT_EQ((*model)->file->n_shards(), 2);
  const auto whole = load_model(dir.path("whole.gguf"), "");
  const size_t bytes = (*model)->ngram_table.bytes();
  EXPECT_TRUE(std::equal((*model)->ngram_table.data, (*model)->ngram_table.data + bytes, (*whole)->ngram_table.data));
  EXPECT_LT(dir.get("m-00002-of-00002.gguf").size(), bytes + 512);
}

TEST(SynthWrite, WhatCannotBeWrittenLeavesNothingBehind) {
  const TempDir dir;
  const Status full = write(preset("real", {"layers=511", "experts=64k"}), dir.path("m.gguf")).status();
  EXPECT_EQ(full.code(), Code::io);
  EXPECT_NE(full.text().find("m.gguf needs "), std::string::npos) << full.text();
  EXPECT_NE(full.text().find(" free; free space"), std::string::npos) << full.text();
  WorkerPool pool(1);
  int calls = 0;
  const auto stop = [&](uint64_t done, uint64_t total) {
    EXPECT_LE(done, total);
    return ++calls < 5 ? Status() : Status(Code::cancelled, "interrupted");
  };
  EXPECT_EQ(write_synth(small(), dir.path("m.gguf"), pool, stop).status().code(), Code::cancelled);
  EXPECT_EQ(write(small(), dir.path("missing/m.gguf")).status().code(), Code::not_found);
  EXPECT_EQ(dir.entries(), 0u);
}

}  // namespace
}  // namespace strata
