// Routing traces through the engine: what is recorded, what a replay does, and what cannot be served.
#include "engine/routing.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <random>

#include "engine/engine_case.h"
#include "engine/model_harness.h"

namespace strata {
namespace {

using testing::answer;
using testing::EngineCase;
using testing::greedy;
using testing::Harness;
using testing::Recorder;
using testing::text;
using testing::TinyGeometry;
using testing::TinyModel;

TinyGeometry with_draft_head() {
  TinyGeometry g;
  g.draft_experts = 8;
  return g;
}

class Routing : public EngineCase {
 protected:
  Routing() : EngineCase(with_draft_head()) {}

  std::string trace() const { return dir.path("t.trace"); }
  std::unique_ptr<Engine> recording(const std::function<void(EngineOptions&)>& edit = {}) {
    return open([&](EngineOptions& o) {
      o.trace_routing = trace();
      if (edit) edit(o);
    });
  }
  std::unique_ptr<Engine> replaying(const std::function<void(EngineOptions&)>& edit = {}) {
    return open([&](EngineOptions& o) {
      o.replay_routing = trace();
      if (edit) edit(o);
    });
  }
  Status refusal(const std::function<void(EngineOptions&)>& edit) {
    if (!std::filesystem::exists(path())) model.write(path());
    EngineOptions o = testing::options_for(path(), GetParam());
    edit(o);
    return Engine::open(o, nullptr).status();
  }
  // The same shape as the model, ids at random.
  void put_random_trace(uint64_t positions) {
    const RoutingGeometry shape{std::vector<RoutingLayer>(4, {8, 3})};
    std::string file = shape.header(positions);
    std::mt19937 random(7);
    for (uint64_t list = 0; list < 4 * positions; ++list) {
      const auto first = random() % 8, step = 1 + 2 * (random() % 4);
      for (uint64_t i = 0; i < 3; ++i) file += static_cast<char>((first + step * i) % 8), file += '\0';
    }
    dir.put("t.trace", file);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Routing, ::testing::Values("plain", "cpu"), testing::device_name);

TEST_P(Routing, AReplayOfARunIsThatRun) {
  for (const int drafts : {0, 3}) {
    const auto edit = [&](EngineOptions& o) { o.max_drafts = drafts, o.chunk_rows = 16; };
    const auto recorder = recording(edit);
    const Recorder first = answer(*recorder, greedy(text(50), 40));
    EXPECT_EQ(recorder->save_routing().value(), 89) << "the last token was drawn and not computed";
    const Recorder again = answer(*replaying(edit), greedy(text(50), 40));
    EXPECT_EQ(again.tokens, first.tokens);
    EXPECT_EQ(again.finished.logits_hash, first.finished.logits_hash);
    EXPECT_EQ(again.finished.timings.prompt_tokens, 50);
    const Recorder unwatched = answer(*open(edit), greedy(text(50), 40));
    EXPECT_EQ(unwatched.finished.logits_hash, first.finished.logits_hash) << "recording changes nothing";
  }
}

// Windows hold rows that are not kept, and a second request goes back: each position has the entry of its last row.
TEST_P(Routing, ATraceHoldsWhatWasKeptHoweverItWasComputed) {
  const auto plain = recording([](EngineOptions& o) { o.max_drafts = 0; });
  answer(*plain, greedy(text(80), 30));
  ASSERT_TRUE(plain->save_routing().ok());
  const std::string want = dir.get("t.trace");
  const auto drafting = recording([](EngineOptions& o) { o.chunk_rows = 64; });
  std::vector<int> other = text(80);
  other.resize(100, 5);
  answer(*drafting, greedy(other, 25));
  const Recorder second = answer(*drafting, greedy(text(80), 30));
  EXPECT_GT(second.finished.timings.cached_tokens, 0);
  EXPECT_EQ(drafting->save_routing().value(), 109);
  EXPECT_EQ(dir.get("t.trace"), want);
}

TEST_P(Routing, AForeignTraceDecides) {
  put_random_trace(120);
  const Recorder own = answer(*open(), greedy(text(50), 40));
  const Recorder first = answer(*replaying(), greedy(text(50), 40));
  EXPECT_EQ(first.tokens.size(), 40u);
  EXPECT_NE(first.finished.logits_hash, own.finished.logits_hash);
  const Recorder again =
      answer(*replaying([](EngineOptions& o) { o.max_drafts = 0, o.chunk_rows = 9; }), greedy(text(50), 40));
  EXPECT_EQ(again.tokens, first.tokens) << "whatever drafts and chunks there are";
  EXPECT_EQ(again.finished.logits_hash, first.finished.logits_hash);
}

// Looks at what the replay made of every row.
class Watched final : public RoutingTap {
 public:
  explicit Watched(RoutingReplay& replay) : replay_(replay) {}
  Status admit(Pos end) const override { return replay_.admit(end); }
  bool choose(LayerId layer, std::span<const Segment> segments, const Routed& routed) override {
    return replay_.choose(layer, segments, routed);
  }
  void see(LayerId layer, std::span<const Segment> segments, const Routed& routed) override {
    const Segment& s = segments.front();
    for (int r = 0; r < s.n_rows; ++r) {
      const int32_t* ids = routed.ids + r * routed.n_used;
      used[{s.first_pos + r, layer.v}].assign(ids, ids + routed.n_used);
      float sum = 0;
      for (int i = 0; i < routed.n_used; ++i) sum += routed.weights[r * routed.n_used + i];
      EXPECT_NEAR(sum, 1, 1e-5) << "weights of position " << s.first_pos + r;
    }
  }
  std::map<std::pair<Pos, int>, std::vector<int32_t>> used;

 private:
  RoutingReplay& replay_;
};

TEST_P(Routing, EveryRowUsesTheExpertsOfItsPosition) {
  put_random_trace(40);
  model.write(path());
  Harness h(GetParam(), path(), 100);
  const RoutingGeometry shape = RoutingGeometry::of(h.model->config).value();
  const auto replay = RoutingReplay::open(trace(), shape).value();
  Watched watched(*replay);
  h.forward->set_routing(&watched);
  const auto s = h.sequence();
  h.read(*s, testing::ids(text(30)), 13);
  for (int i = 0; i < 10; ++i) h.decode(*s, TokenId(i));
  EXPECT_EQ(watched.used.size(), 40u * 4) << "the trunk's layers alone";
  const std::string file = dir.get("t.trace");
  const auto checked = RoutingTrace::parse(std::as_bytes(std::span(file)), "t.trace").value();
  for (const auto& [key, ids] : watched.used) {
    std::vector<int32_t> want(3);
    checked.ids(static_cast<uint64_t>(key.first), static_cast<size_t>(key.second), want.data());
    EXPECT_EQ(ids, want) << "position " << key.first << " layer " << key.second;
  }
}

TEST_P(Routing, ATraceLastsForItsTokensAndIsNotRepeated) {
  put_random_trace(60);
  const auto engine = replaying();
  Recorder sink;
  const auto refused = engine->submit(greedy(text(61), 1), sink);
  EXPECT_EQ(refused.status().code(), Code::out_of_range);
  EXPECT_EQ(refused.status().message(),
            trace() + ": the routing trace lasts for 60 tokens, prompt and answer need 61 by now");
  EXPECT_NE(refused.status().hint().find("it is not repeated"), std::string::npos);
  // 50 of the prompt and 10 of the answer; the eleventh is drawn from the logits of the last.
  for (const int wish : {10, 11}) {
    const Recorder out = answer(*engine, greedy(text(50), wish));
    EXPECT_EQ(out.finished.reason, FinishReason::length) << "drafts beyond the end cost nothing";
    EXPECT_EQ(out.tokens.size(), static_cast<size_t>(wish));
  }
  const Recorder out = answer(*engine, greedy(text(50), 12));
  EXPECT_EQ(out.finished.reason, FinishReason::failed);
  EXPECT_EQ(out.tokens.size(), 11u);
  EXPECT_NE(out.finished.status.message().find("lasts for 60 tokens, prompt and answer need 61"), std::string::npos);
  EXPECT_EQ(answer(*engine, greedy(text(60), 1)).tokens.size(), 1u) << "the engine goes on";
}

TEST_P(Routing, ATraceOfAnotherShapeIsRefused) {
  TinyGeometry g;
  g.blocks = 8;
  TinyModel(g).write(dir.path("other.gguf"));
  EngineOptions o = testing::options_for(dir.path("other.gguf"), GetParam());
  o.trace_routing = trace();
  const auto recorder = testing::open_engine(o);
  answer(*recorder, greedy(text(5), 2));
  ASSERT_TRUE(recorder->save_routing().ok());
  const auto status = [&](const std::string& file) {
    return refusal([&](EngineOptions& options) { options.replay_routing = file; });
  };
  EXPECT_NE(status(trace()).message().find("the routing trace has 8 layers, the model 4"), std::string::npos);
  EXPECT_NE(status(path()).message().find("not a routing trace"), std::string::npos);
  EXPECT_EQ(status(dir.path("none.trace")).code(), Code::not_found);
  dir.put("empty.trace", "");
  EXPECT_FALSE(status(dir.path("empty.trace")).ok());
}

TEST_P(Routing, ATraceThatChangesWhileItIsReplayedEndsTheRequest) {
  put_random_trace(60);
  const auto engine = replaying();
  Recorder out;
  out.at_token = [&] { dir.put("t.trace", "something else"); };
  ASSERT_TRUE(engine->submit(greedy(text(20), 10), out).ok());
  testing::run_all(*engine);
  EXPECT_EQ(out.finished.reason, FinishReason::failed);
  EXPECT_NE(out.finished.status.message().find("t.trace"), std::string::npos) << out.finished.status.text();
}

// Limits the size of files while it lives, which writing meets as a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int) = nullptr;
};

TEST_P(Routing, AFullDiskLeavesTheOldTrace) {
  dir.put("t.trace", "old");
  const auto engine = recording();
  answer(*engine, greedy(text(50), 10));
  {
    const FullDisk full(200);
    const auto saved = engine->save_routing();
    ASSERT_FALSE(saved.ok());
    EXPECT_NE(saved.status().message().find("t.trace"), std::string::npos) << saved.status().text();
  }
  EXPECT_EQ(dir.get("t.trace"), "old");
  EXPECT_EQ(dir.entries(), 2u) << "the model and the old trace";
  EXPECT_EQ(engine->save_routing().value(), 59);
}

TEST_P(Routing, APlaceThatCannotBeWrittenIsKnownBeforeTheRun) {
  EXPECT_FALSE(refusal([&](EngineOptions& o) { o.trace_routing = dir.path("no/such/folder/t.trace"); }).ok());
  EXPECT_FALSE(refusal([&](EngineOptions& o) { o.trace_routing = dir.path(""); }).ok());
}

TEST_P(Routing, ThePlanCountsTheTrace) {
  const auto engine = recording([](EngineOptions& o) { o.max_context = 100; });
  uint64_t bytes = 0;
  for (const PlanLine& l : engine->plan().lines) bytes += l.what == "routing trace" ? l.bytes : 0;
  EXPECT_EQ(bytes, 100u * 4 * 3 * 2);
}

}  // namespace
}  // namespace strata
