// Requests that end otherwise: cancelled in any state, files that change underneath, numbers that are not finite.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "engine/engine.h"
#include "engine/engine_case.h"

namespace strata {
namespace {

using testing::answer;
using testing::EngineCase;
using testing::greedy;
using testing::ids;
using testing::Recorder;
using testing::run_all;
using testing::text;

class EngineFaults : public EngineCase {
 protected:
  std::vector<int> cold(const std::vector<int>& prompt, int n) { return answer(*open(), greedy(prompt, n)).tokens; }
};
INSTANTIATE_TEST_SUITE_P(Devices, EngineFaults, ::testing::Values("plain", "cpu"), testing::device_name);

// --- Cancelling -----------------------------------------------------------------------------------------------------

TEST_P(EngineFaults, CancelledBeforeItBeganARequestComputesNothing) {
  const auto engine = open();
  Recorder out;
  const auto id = engine->submit(greedy(text(30), 5), out).value();
  engine->cancel(id);
  EXPECT_FALSE(out.is_finished) << "events come from inside a step";
  EXPECT_FALSE(engine->step());
  EXPECT_EQ(out.finished.reason, FinishReason::cancelled);
  EXPECT_EQ(out.prompt_done, 0);
  EXPECT_TRUE(out.tokens.empty());
}

TEST_P(EngineFaults, CancelledWhileItReadsARequestStopsWithinOneChunk) {
  const auto engine = open([](EngineOptions& o) { o.chunk_rows = 64; });
  Recorder out;
  const auto id = engine->submit(greedy(text(300), 5), out).value();
  engine->step();
  engine->step();
  EXPECT_EQ(out.prompt_done, 128);
  engine->cancel(id);
  EXPECT_FALSE(engine->step());
  EXPECT_EQ(out.finished.reason, FinishReason::cancelled);
  EXPECT_EQ(out.prompt_done, 128);
  // What was read is not read again, and is right.
  const Recorder next = answer(*engine, greedy(text(300), 8));
  EXPECT_EQ(next.finished.timings.cached_tokens, 128);
  EXPECT_EQ(next.tokens, cold(text(300), 8));
}

TEST_P(EngineFaults, CancelledWhileItSpeaksARequestSaysNoMore) {
  const auto engine = open();
  Recorder out;
  const auto id = engine->submit(greedy(text(30), 50), out).value();
  while (out.tokens.size() < 7) ASSERT_TRUE(engine->step());
  engine->cancel(id);
  EXPECT_FALSE(engine->step());
  EXPECT_EQ(out.finished.reason, FinishReason::cancelled);
  EXPECT_EQ(out.tokens.size(), 7u);
  EXPECT_EQ(out.finished.timings.generated_tokens, 7);
  EXPECT_EQ(answer(*engine, greedy(text(30), 50)).tokens, cold(text(30), 50));
}

TEST_P(EngineFaults, CancelledByItsOwnSinkARequestEndsAtTheNextStep) {
  const auto engine = open();
  Recorder out;
  RequestId id = 0;
  out.at_token = [&] {
    if (out.tokens.size() == 3) engine->cancel(id);
  };
  id = engine->submit(greedy(text(30), 50), out).value();
  run_all(*engine);
  EXPECT_EQ(out.finished.reason, FinishReason::cancelled);
  EXPECT_EQ(out.tokens.size(), 3u);
}

TEST_P(EngineFaults, ARequestThatWaitsLeavesTheQueueAtOnceAndTheOthersAlone) {
  const auto engine = open();
  Recorder a, b, c;
  ASSERT_TRUE(engine->submit(greedy(text(30), 20), a).ok());
  const auto waiting = engine->submit(greedy(text(30, 1), 20), b).value();
  ASSERT_TRUE(engine->submit(greedy(text(30, 2), 20), c).ok());
  engine->step();
  engine->cancel(waiting);
  EXPECT_TRUE(engine->step());
  EXPECT_EQ(b.finished.reason, FinishReason::cancelled);
  EXPECT_FALSE(a.is_finished);
  run_all(*engine);
  EXPECT_EQ(a.tokens, cold(text(30), 20));
  EXPECT_EQ(c.tokens, cold(text(30, 2), 20));
}

TEST_P(EngineFaults, ASinkMaySubmitWhenARequestIsCancelled) {
  const auto engine = open();
  Recorder a, b, next;
  const auto first = engine->submit(greedy(text(30), 20), a).value();
  const auto second = engine->submit(greedy(text(30, 1), 20), b).value();
  a.at_end = [&] { EXPECT_TRUE(engine->submit(greedy(text(20, 5), 4), next).ok()); };
  engine->cancel(first);
  engine->cancel(second);
  run_all(*engine);
  EXPECT_EQ(a.finished.reason, FinishReason::cancelled);
  EXPECT_EQ(b.finished.reason, FinishReason::cancelled);
  EXPECT_EQ(next.tokens.size(), 4u);
}

TEST_P(EngineFaults, CancellingWhatIsOverOrNeverWasDoesNothing) {
  const auto engine = open();
  Recorder a, b;
  const auto id = engine->submit(greedy(text(30), 3), a).value();
  run_all(*engine);
  engine->cancel(id);
  for (RequestId unknown = id + 1; unknown < id + 10; ++unknown) engine->cancel(unknown);
  ASSERT_TRUE(engine->submit(greedy(text(30), 3), b).ok());
  run_all(*engine);
  EXPECT_EQ(b.finished.reason, FinishReason::length) << "an id that was cancelled before it existed";
}

TEST_P(EngineFaults, AnyThreadMayCancel) {
  const auto engine = open();
  Recorder out;
  std::atomic<bool> speaking{false};
  out.at_token = [&] { speaking = true; };
  const auto id = engine->submit(greedy(text(30), 0), out).value();
  std::thread other([&] {
    while (!speaking) std::this_thread::yield();
    for (int i = 0; i < 100; ++i) engine->cancel(id);
  });
  run_all(*engine);
  other.join();
  EXPECT_TRUE(out.finished.reason == FinishReason::cancelled || out.finished.reason == FinishReason::context);
}

// --- Files ----------------------------------------------------------------------------------------------------------

TEST_P(EngineFaults, AModelFileReplacedWhileInUseFailsTheRequestsWithAClearError) {
  const auto engine = open();
  Recorder running, waiting, later;
  ASSERT_TRUE(engine->submit(greedy(text(30), 50), running).ok());
  ASSERT_TRUE(engine->submit(greedy(text(30), 50), waiting).ok());
  while (running.tokens.size() < 3) ASSERT_TRUE(engine->step());
  model.write(dir.path("new.gguf"));
  std::filesystem::rename(dir.path("new.gguf"), path());
  run_all(*engine);
  for (const Recorder* r : {&running, &waiting}) {
    EXPECT_EQ(r->finished.reason, FinishReason::failed);
    EXPECT_NE(r->finished.status.text().find("m.gguf: the file was replaced by another one"), std::string::npos)
        << r->finished.status.text();
  }
  EXPECT_EQ(running.tokens.size(), 3u);
  EXPECT_EQ(engine->submit(greedy(text(30), 5), later).status().code(), Code::io);
  EXPECT_EQ(engine->score(ids(text(30)), nullptr).status().code(), Code::io);
}

TEST_P(EngineFaults, AModelFileWrittenToOrRemovedFailsTheRequest) {
  {
    const auto engine = open();
    Recorder out;
    ASSERT_TRUE(engine->submit(greedy(text(30), 50), out).ok());
    std::ofstream(path(), std::ios::app) << "x";
    run_all(*engine);
    EXPECT_NE(out.finished.status.message().find("changed while it was in use"), std::string::npos);
  }
  std::filesystem::remove(path());
  const auto engine = open();
  Recorder out;
  ASSERT_TRUE(engine->submit(greedy(text(30), 50), out).ok());
  std::filesystem::remove(path());
  run_all(*engine);
  EXPECT_NE(out.finished.status.message().find("was removed"), std::string::npos);
}

TEST_P(EngineFaults, ADraftFileReplacedIsNoticedToo) {
  testing::TinyGeometry g;
  g.draft_experts = 8;
  testing::TinyModel head(g);
  head.write_draft(dir.path("head.gguf"));
  const auto engine = open([&](EngineOptions& o) { o.mtp_path = dir.path("head.gguf"); });
  Recorder out;
  ASSERT_TRUE(engine->submit(greedy(text(30), 50), out).ok());
  engine->step();
  std::filesystem::remove(dir.path("head.gguf"));
  run_all(*engine);
  EXPECT_EQ(out.finished.reason, FinishReason::failed);
  EXPECT_NE(out.finished.status.message().find("head.gguf"), std::string::npos);
}

// --- Numbers --------------------------------------------------------------------------------------------------------

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

// Tokens of the prompts here are never 90, whose embedding is broken.
std::vector<int> without_90(int n, int salt = 0) {
  auto out = text(n, salt);
  std::replace(out.begin(), out.end(), 90, 91);
  return out;
}

class BrokenWeights : public EngineFaults {
 protected:
  void break_row(const std::string& name, size_t row, float value) {
    model.retype(name, DType::F32);
    std::memcpy(model.bytes(name).data() + row * 64 * sizeof(float), &value, sizeof value);
  }
  // Nothing but token 90 is said to be broken, so it may not be drawn either.
  static Request request(const std::vector<int>& prompt, int n) {
    Request r = greedy(prompt, n);
    r.sample.logit_bias = {{TokenId(90), -100.0f}};
    return r;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, BrokenWeights, ::testing::Values("plain", "cpu"), testing::device_name);

TEST_P(BrokenWeights, LogitsThatAreNotFiniteFailTheRequestWithAMessage) {
  for (const float value : {kNan, kInf, -kInf}) {
    std::filesystem::remove(path());
    break_row("output.weight", 17, value);
    const auto engine = open();
    for (int i = 0; i < 2; ++i) {  // and again: the engine stays usable
      const Recorder out = answer(*engine, greedy(text(30, i), 50));
      ASSERT_TRUE(out.is_finished);
      EXPECT_TRUE(out.tokens.empty() || !std::isnan(value));
      ASSERT_EQ(out.finished.reason, FinishReason::failed);
      EXPECT_EQ(out.finished.status.code(), Code::failed);
      EXPECT_NE(out.finished.status.message().find("position "), std::string::npos) << out.finished.status.text();
    }
    const auto scored = engine->score(ids(text(30)), nullptr);
    EXPECT_TRUE(scored.status().code() == Code::failed || !std::isnan(value));
  }
}

TEST_P(BrokenWeights, ATokenThatBreaksTheStateFailsItsRequestAndNoOther) {
  break_row("token_embd.weight", 90, kNan);
  const auto engine = open();
  const auto shared = without_90(100);
  const Recorder before = answer(*engine, request(shared, 10));
  EXPECT_EQ(before.tokens.size(), 10u);

  auto poisoned = shared;
  poisoned.push_back(90);
  const auto more = without_90(40, 3);
  poisoned.insert(poisoned.end(), more.begin(), more.end());
  const Recorder bad = answer(*engine, request(poisoned, 10));
  EXPECT_EQ(bad.finished.reason, FinishReason::failed);
  EXPECT_EQ(bad.finished.status.code(), Code::failed);
  EXPECT_TRUE(bad.tokens.empty());

  const Recorder again = answer(*engine, request(shared, 10));
  EXPECT_EQ(again.tokens, before.tokens) << "what the failed request computed is not reused";
  EXPECT_EQ(again.finished.logits_hash, before.finished.logits_hash);
}

TEST_P(BrokenWeights, RequestsThatWaitBehindAFailingOneGoOn) {
  break_row("token_embd.weight", 90, kNan);
  const auto engine = open();
  Recorder good, bad, next;
  ASSERT_TRUE(engine->submit(request(without_90(30), 10), good).ok());
  auto poisoned = without_90(30);
  poisoned[7] = 90;
  ASSERT_TRUE(engine->submit(request(poisoned, 10), bad).ok());
  ASSERT_TRUE(engine->submit(request(without_90(30), 10), next).ok());
  run_all(*engine);
  EXPECT_EQ(bad.finished.reason, FinishReason::failed);
  EXPECT_EQ(good.tokens.size(), 10u);
  EXPECT_EQ(next.tokens, good.tokens);
}

}  // namespace
}  // namespace strata
