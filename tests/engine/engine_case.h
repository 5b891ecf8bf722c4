// An engine on a small model, and a sink that writes down what it is told.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "model/tiny_model.h"

namespace strata::testing {

class Recorder final : public Sink {
 public:
  void on_prompt(int done, int total) override {
    EXPECT_FALSE(is_finished);
    EXPECT_TRUE(tokens.empty()) << "prompt progress after a token";
    EXPECT_GT(done, prompt_done);
    EXPECT_LE(done, total);
    prompt_done = done, prompt_total = total;
    if (at_prompt) at_prompt();
  }
  void on_token(TokenId token, float logprob) override {
    EXPECT_FALSE(is_finished);
    EXPECT_EQ(prompt_done, prompt_total) << "a token before the prompt was read";
    EXPECT_LE(logprob, 0.0f);
    tokens.push_back(token.v);
    logprobs.push_back(logprob);
    if (at_token) at_token();
  }
  void on_finished(const Finished& f) override {
    EXPECT_FALSE(is_finished) << "finished twice";
    EXPECT_EQ(f.status.ok(), f.reason != FinishReason::failed);
    EXPECT_EQ(f.timings.generated_tokens, static_cast<int>(tokens.size()));
    is_finished = true;
    finished = f;
    if (at_end) at_end();
  }

  int prompt_done = 0, prompt_total = 0;
  std::vector<int> tokens;
  std::vector<float> logprobs;
  bool is_finished = false;
  Finished finished;
  std::function<void()> at_prompt, at_token, at_end;
};

inline std::vector<TokenId> ids(const std::vector<int>& tokens) {
  std::vector<TokenId> out;
  for (const int t : tokens) out.emplace_back(t);
  return out;
}

// n tokens of a 96-token vocabulary that no two `salt`s share.
inline std::vector<int> text(int n, int salt = 0) {
  std::vector<int> out;
  for (int i = 0; i < n; ++i) out.push_back((i * i * 7 + i * (3 + salt) + 11 * salt + 1) % 96);
  return out;
}

inline Request greedy(const std::vector<int>& prompt, int max_tokens) {
  Request r;
  r.prompt = ids(prompt);
  r.sample.temperature = 0;
  r.limits.max_tokens = max_tokens;
  return r;
}

inline EngineOptions options_for(const std::string& path, const std::string& device = "cpu") {
  EngineOptions o;
  o.model_path = path, o.device = device, o.threads = 1;
  return o;
}

inline std::unique_ptr<Engine> open_engine(const EngineOptions& options) {
  auto engine = Engine::open(options, nullptr);
  EXPECT_TRUE(engine.ok()) << engine.status().text();
  return std::move(engine).value();
}

inline void run_all(Engine& engine) {
  int steps = 0;
  while (engine.step()) ASSERT_LT(++steps, 10000) << "the engine does not come to an end";
}

// Submits, runs to the end.
inline Recorder answer(Engine& engine, Request request) {
  Recorder out;
  const auto id = engine.submit(std::move(request), out);
  EXPECT_TRUE(id.ok()) << id.status().text();
  run_all(engine);
  EXPECT_TRUE(out.is_finished);
  return out;
}

// A small model in a directory of its own.
class EngineCase : public ::testing::TestWithParam<const char*> {
 protected:
  explicit EngineCase(const TinyGeometry& g = {}) : model(g) {}

  std::string path() const { return dir.path("m.gguf"); }
  std::unique_ptr<Engine> open(const std::function<void(EngineOptions&)>& edit = {}) {
    if (!std::filesystem::exists(path())) model.write(path());
    EngineOptions o = options_for(path(), GetParam());
    if (edit) edit(o);
    return open_engine(o);
  }

  TinyModel model;
  TempDir dir;
};

inline std::string device_name(const ::testing::TestParamInfo<const char*>& info) {
  return info.param;
}

}  // namespace strata::testing
