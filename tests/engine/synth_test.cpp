// Models of random weights, all the way through the engine: what they are for.
#include "model/synth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/engine_case.h"
#include "engine/model_harness.h"

namespace strata::testing {
namespace {

SynthSpec spec_of(const std::string& preset, const std::vector<std::string>& assignments) {
  SynthSpec spec = synth_preset(preset).value();
  for (const std::string& a : assignments) EXPECT_TRUE(synth_set(spec, a).ok()) << a;
  return spec;
}

std::string written(const TempDir& dir, const SynthSpec& spec) {
  WorkerPool pool(2);
  const auto files = write_synth(spec, dir.path("m.gguf"), pool, [](uint64_t, uint64_t) { return Status(); });
  EXPECT_TRUE(files.ok()) << files.status().text();
  return files->paths.front();
}

double rms(const MatF32& m, int row) {
  double sum = 0;
  for (int i = 0; i < m.cols; ++i) sum += static_cast<double>(m.row(row)[i]) * static_cast<double>(m.row(row)[i]);
  return std::sqrt(sum / m.cols);
}

// The residual and the logits of a prompt's last token have a size of about one, whatever the number of blocks.
TEST(SynthModel, ActivationsKeepTheirSizeOverManyBlocks) {
  for (const char* layers : {"layers=2", "layers=12", "layers=96"}) {
    SCOPED_TRACE(layers);
    const TempDir dir;
    const std::string path = written(
        dir, spec_of("nano", {layers, "experts=16", "vocab=1024", "ngram-rows=8000", "type.experts-in=IQ2_S,IQ3_XXS"}));
    Harness h("cpu", path, 256);
    const auto sequence = h.sequence();
    const std::vector<float> logits = h.read(*sequence, ids(text(64)));
    double sum = 0;
    for (const float v : logits) {
      ASSERT_TRUE(std::isfinite(v));
      sum += static_cast<double>(v) * static_cast<double>(v);
    }
    EXPECT_GT(std::sqrt(sum / static_cast<double>(logits.size())), 0.2);
    EXPECT_LT(std::sqrt(sum / static_cast<double>(logits.size())), 10);
    const double wide = rms(h.forward->activations().streams, 63);
    EXPECT_GT(wide, 0.5);
    EXPECT_LT(wide, 10);
  }
}

TEST(SynthModel, GeneratesWithADraftHeadAndATableInAFileOfItsOwn) {
  const TempDir dir;
  SynthSpec spec = spec_of("nano", {"layers=5", "experts=32", "draft-experts=16", "vocab=512", "ngram-rows=4000"});
  spec.mtp = spec.split = true;
  spec.router_skew = 0.5;
  const std::string path = written(dir, spec);
  const auto engine = open_engine(options_for(path));
  const Recorder with = answer(*engine, greedy(text(40), 12));
  EXPECT_EQ(with.finished.reason, FinishReason::length) << with.finished.status.text();
  EXPECT_EQ(with.tokens.size(), 12u);
  EXPECT_GT(with.finished.timings.drafted, 0);
}

// What the router chooses in a model, not for made-up inputs: also with skew 0 nearly all experts have their turn.
TEST(SynthModel, SkewDecidesHowManyExpertsAModelUses) {
  const auto used = [](double skew) {
    const TempDir dir;
    SynthSpec spec = spec_of("nano", {"layers=4", "experts=64", "experts-used=4", "vocab=1024", "ngram-rows=8000"});
    spec.router_skew = skew;
    Harness h("cpu", written(dir, spec), 512);
    const auto sequence = h.sequence();
    std::vector<TokenId> prompt;
    for (int i = 0; i < 400; ++i) prompt.emplace_back(i * 37 % 900);
    h.read(*sequence, prompt);
    std::vector<int> uses(64);
    const Routed& routed = h.forward->activations().routed;
    for (int i = 0; i < 400 * 4; ++i) ++uses[static_cast<size_t>(routed.ids[i])];
    std::sort(uses.rbegin(), uses.rend());
    return std::accumulate(uses.begin(), uses.begin() + 13, 0) / 1600.0;  // of the busiest fifth
  };
  const double even = used(0), some = used(0.5), much = used(1.5);
  EXPECT_LT(even, 0.5);
  EXPECT_GT(some, even + 0.08);
  EXPECT_GT(much, some + 0.08);
  RecordProperty("shares", fmt::format("{:.2f} {:.2f} {:.2f}", even, some, much));
}

}  // namespace
}  // namespace strata::testing
