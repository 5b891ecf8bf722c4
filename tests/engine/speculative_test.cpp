#include "engine/speculative.h"

#include <gtest/gtest.h>

#include <numeric>

#include "engine/engine.h"
#include "model/tiny_model.h"
#include "temp_dir.h"

namespace strata {
namespace {

void run_steps(DraftPolicy& policy, int steps, int tokens_when_drafting, double drafted_step_s) {
  for (int i = 0; i < steps; ++i) {
    const int drafts = policy.drafts();
    policy.record(drafts, drafts > 0 ? tokens_when_drafting : 1, drafts > 0 ? drafted_step_s : 0.010);
  }
}

TEST(DraftPolicy, MeasuresPlainStepsBeforeItDrafts) {
  DraftPolicy policy(3);
  for (int i = 0; i <= DraftPolicy::kPlainSteps; ++i) {
    EXPECT_EQ(policy.drafts(), 0) << i;
    policy.record(0, 1, 0.01);
  }
  EXPECT_EQ(policy.drafts(), 3);
}

TEST(DraftPolicy, KeepsDraftingThatPays) {
  DraftPolicy policy(3);
  run_steps(policy, 200, 3, 0.015);
  EXPECT_FALSE(policy.off());
  EXPECT_EQ(policy.drafts(), 3);
}

TEST(DraftPolicy, StopsDraftingThatNeverAgrees) {
  DraftPolicy policy(3);
  run_steps(policy, 200, 1, 0.015);
  EXPECT_TRUE(policy.off());
  EXPECT_EQ(policy.drafts(), 0);
}

TEST(DraftPolicy, StopsWhenAgreementDoesNotPayForTheCost) {
  DraftPolicy policy(3);
  run_steps(policy, 200, 2, 0.021);
  EXPECT_TRUE(policy.off());
}

TEST(DraftPolicy, NoticesThatATextHasBecomeHardToGuess) {
  DraftPolicy policy(2);
  run_steps(policy, 60, 3, 0.015);
  EXPECT_FALSE(policy.off());
  run_steps(policy, 60, 1, 0.015);
  EXPECT_TRUE(policy.off());
}

TEST(DraftPolicy, WithoutDraftsThereIsNothingToDecide) {
  EXPECT_TRUE(DraftPolicy(0).off());
}

struct Collect : Sink {
  std::vector<TokenId> tokens;
  Finished finished;
  void on_prompt(int, int) override {}
  void on_token(TokenId token, float) override { tokens.push_back(token); }
  void on_finished(const Finished& f) override { finished = f; }
};

Collect generate(const std::string& path, const std::string& draft, const std::string& device, int drafts,
                 float temperature) {
  EngineOptions options;
  options.model_path = path, options.mtp_path = draft, options.device = device, options.max_drafts = drafts;
  auto engine = Engine::open(options, nullptr);
  EXPECT_TRUE(engine.ok()) << engine.status().text();
  Collect out;
  Request request;
  for (int i = 0; i < 20; ++i) request.prompt.emplace_back(1 + i % 5);
  request.sample.temperature = temperature;
  request.sample.seed = 11;
  request.sample.repeat_penalty = 1.1f;
  request.sample.frequency_penalty = 0.1f;
  request.limits.max_tokens = 48;
  EXPECT_TRUE((*engine)->submit(std::move(request), out).ok());
  while ((*engine)->step()) {
  }
  EXPECT_TRUE(out.finished.status.ok()) << out.finished.status.text();
  return out;
}

// The random model's head almost never agrees with its trunk, the bundled one's mostly does: rejection and acceptance.
TEST(Drafting, GivesTheTextOfTheTrunkAlone) {
  const TempDir dir;
  testing::TinyGeometry g;
  g.draft_experts = 16;
  const std::string tiny = dir.path("tiny.gguf");
  testing::TinyModel(g).write(tiny);
  const std::string models = std::string(STRATA_SOURCE_DIR) + "/models/";
  const std::pair<std::string, std::string> pairs[] = {
      {tiny, ""}, {models + "flash-next-nano-IQ3_XXS.gguf", models + "flash-next-nano-MTP-IQ4_NL.gguf"}};
  int drafted = 0, accepted = 0;
  for (const auto& [model, draft] : pairs) {
    for (const float temperature : {0.0f, 0.8f}) {
      const Collect alone = generate(model, draft, "cpu", 0, temperature);
      EXPECT_EQ(alone.tokens.size(), 48u);
      EXPECT_EQ(alone.finished.timings.drafted, 0);
      for (const int drafts : {2, 7}) {
        const Collect with = generate(model, draft, "cpu", drafts, temperature);
        EXPECT_EQ(with.tokens, alone.tokens) << drafts << " drafts, temperature " << temperature;
        EXPECT_EQ(with.finished.logits_hash, alone.finished.logits_hash)
            << drafts << " drafts, temperature " << temperature;
        drafted += with.finished.timings.drafted;
        accepted += with.finished.timings.accepted;
      }
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(drafted, accepted) << "some drafts must have been rejected";
}

}  // namespace
}  // namespace strata
