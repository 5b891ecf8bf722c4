// Requests that go well, on both devices: limits, events, reuse of what is known, sampling, scoring.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "engine/engine_case.h"
#include "engine/model_harness.h"

namespace strata {
namespace {

using testing::answer;
using testing::EngineCase;
using testing::greedy;
using testing::Harness;
using testing::ids;
using testing::Recorder;
using testing::run_all;
using testing::text;

class EngineRequests : public EngineCase {};
INSTANTIATE_TEST_SUITE_P(Devices, EngineRequests, ::testing::Values("plain", "cpu"), testing::device_name);

TEST_P(EngineRequests, OpeningReportsStagesInOrder) {
  model.write(path());
  std::vector<double> fractions;
  std::string last;
  const auto engine = Engine::open(testing::options_for(path(), GetParam()), [&](const LoadProgress& p) {
    fractions.push_back(p.fraction);
    last = p.stage;
  });
  ASSERT_TRUE(engine.ok());
  EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
  EXPECT_EQ(fractions.back(), 1.0);
  EXPECT_EQ(last, "ready");
  EXPECT_STREQ((*engine)->device(), GetParam());
  EXPECT_EQ((*engine)->facts().config.vocab, 96);
  EXPECT_EQ((*engine)->plan().max_context, 512);
}

TEST_P(EngineRequests, OpeningFailsWithWhatIsWrong) {
  model.write(path());
  const auto error = [&](const std::function<void(EngineOptions&)>& edit) {
    EngineOptions o = testing::options_for(path(), GetParam());
    edit(o);
    return Engine::open(o, nullptr).status();
  };
  EXPECT_EQ(error([&](EngineOptions& o) { o.model_path = dir.path("none.gguf"); }).code(), Code::not_found);
  EXPECT_EQ(error([&](EngineOptions& o) { o.mtp_path = dir.path("none.gguf"); }).code(), Code::not_found);
  EXPECT_EQ(error([](EngineOptions& o) { o.device = "abacus"; }).code(), Code::invalid_argument);
  EXPECT_EQ(error([](EngineOptions& o) { o.max_context = 513; }).code(), Code::out_of_range);
  EXPECT_EQ(error([](EngineOptions& o) { o.kv = "q4"; }).code(), Code::invalid_argument);
}

TEST_P(EngineRequests, ARequestThatCannotBeServedIsRefusedBeforeAnythingIsComputed) {
  const auto engine = open([](EngineOptions& o) { o.max_context = 100; });
  Recorder sink;
  const auto refused = [&](Request r) {
    const auto id = engine->submit(std::move(r), sink);
    EXPECT_FALSE(id.ok());
    EXPECT_FALSE(engine->step());
    return id.status();
  };
  EXPECT_EQ(refused(greedy({}, 1)).message(), "the prompt is empty");
  EXPECT_EQ(refused(greedy({1, 96}, 1)).text(), "token id 96 in the prompt; the vocabulary has ids 0 to 95");
  EXPECT_EQ(refused(greedy({-1}, 1)).code(), Code::invalid_argument);
  for (const int n : {100, 101, 5000}) {
    const Status s = refused(greedy(text(n), 1));
    EXPECT_EQ(s.code(), Code::out_of_range);
    EXPECT_NE(s.message().find(fmt::format("the prompt has {} tokens, the context holds 100", n)), std::string::npos)
        << s.text();
    EXPECT_EQ(s.hint(), "shorten it or raise --max-context");
  }
  EXPECT_EQ(refused(greedy({1}, -1)).message(), "max_tokens is -1");
  Request hot = greedy({1}, 1);
  hot.sample.temperature = -1;
  EXPECT_NE(refused(hot).message().find("temperature"), std::string::npos);
  Request bias = greedy({1}, 1);
  bias.sample.logit_bias = {{TokenId(96), 1.0f}};
  EXPECT_NE(refused(bias).message().find("96"), std::string::npos);
  EXPECT_FALSE(sink.is_finished);
  EXPECT_EQ(answer(*engine, greedy({1, 2, 3}, 4)).tokens.size(), 4u) << "the engine goes on";
}

TEST_P(EngineRequests, WithTheWholeContextAsLimitTheHintIsOnlyToShorten) {
  const auto engine = open();
  Recorder sink;
  EXPECT_EQ(engine->submit(greedy(text(512), 1), sink).status().hint(), "shorten it");
}

TEST_P(EngineRequests, AnAnswerEndsWhereTheContextEnds) {
  const auto engine = open([](EngineOptions& o) { o.max_context = 100; });
  for (const int room : {1, 2, 5, 40}) {
    for (const int max_tokens : {0, room, room + 1}) {
      const Recorder out = answer(*engine, greedy(text(100 - room, room), max_tokens));
      EXPECT_EQ(out.tokens.size(), static_cast<size_t>(room));
      EXPECT_EQ(out.finished.reason, max_tokens == room ? FinishReason::length : FinishReason::context);
    }
  }
}

TEST_P(EngineRequests, MaxTokensAreExact) {
  const auto engine = open();
  for (const int n : {1, 2, 17}) {
    const Recorder out = answer(*engine, greedy(text(30), n));
    EXPECT_EQ(out.tokens.size(), static_cast<size_t>(n));
    EXPECT_EQ(out.finished.reason, FinishReason::length);
  }
}

TEST_P(EngineRequests, AStopTokenIsDeliveredAndEndsTheAnswer) {
  const auto engine = open();
  const Recorder whole = answer(*engine, greedy(text(30), 12));
  for (const size_t at : {size_t{0}, size_t{5}, size_t{11}}) {
    const int stop = whole.tokens[at];
    const auto first = std::find(whole.tokens.begin(), whole.tokens.end(), stop) - whole.tokens.begin();
    Request r = greedy(text(30), 12);
    r.limits.stop_tokens = ids({95, stop});
    const Recorder out = answer(*engine, r);
    const bool other =
        std::find(whole.tokens.begin(), whole.tokens.begin() + first, 95) != whole.tokens.begin() + first;
    if (other) continue;
    EXPECT_EQ(out.tokens, std::vector<int>(whole.tokens.begin(), whole.tokens.begin() + first + 1));
    EXPECT_EQ(out.finished.reason, FinishReason::stop) << "also as the last token that was allowed";
  }
}

TEST_P(EngineRequests, ProgressCountsThePromptAndNothingElse) {
  const auto engine = open([](EngineOptions& o) { o.chunk_rows = 64; });
  Recorder out;
  std::vector<int> done;
  out.at_prompt = [&] { done.push_back(out.prompt_done); };
  ASSERT_TRUE(engine->submit(greedy(text(200), 3), out).ok());
  run_all(*engine);
  EXPECT_EQ(done, (std::vector<int>{64, 128, 192, 200}));
  EXPECT_EQ(out.prompt_total, 200);
  const Timings& t = out.finished.timings;
  EXPECT_EQ(t.prompt_tokens, 200);
  EXPECT_EQ(t.cached_tokens, 0);
  EXPECT_EQ(t.generated_tokens, 3);
  EXPECT_EQ(t.steps, 2);
  EXPECT_EQ(t.bytes_read, engine->facts().bytes_per_token * 2);
  EXPECT_GT(t.prompt_s, 0);
  EXPECT_GT(t.decode_s, 0);
}

TEST_P(EngineRequests, RequestsAreAnsweredInTheOrderTheyCame) {
  const auto engine = open();
  std::vector<int> order;
  Recorder a, b, c;
  int serial = 0;
  for (Recorder* r : {&a, &b, &c}) {
    const int n = serial++;
    r->at_end = [&order, n] { order.push_back(n); };
    ASSERT_TRUE(engine->submit(greedy(text(20, n), 5), *r).ok());
  }
  run_all(*engine);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  EXPECT_FALSE(engine->step()) << "nothing is left to do";
}

TEST_P(EngineRequests, ASinkMaySubmitTheNextRequest) {
  const auto engine = open();
  Recorder first, second;
  first.at_end = [&] { EXPECT_TRUE(engine->submit(greedy(text(20, 5), 4), second).ok()); };
  ASSERT_TRUE(engine->submit(greedy(text(20), 4), first).ok());
  run_all(*engine);
  EXPECT_EQ(second.tokens.size(), 4u);
}

// --- What is known already ------------------------------------------------------------------------------------------

TEST_P(EngineRequests, TheSamePromptAgainSaysTheSame) {
  const auto engine = open();
  const auto prompt = text(150);
  const Recorder cold = answer(*engine, greedy(prompt, 10));
  for (int i = 0; i < 3; ++i) {
    const Recorder warm = answer(*engine, greedy(prompt, 10));
    EXPECT_EQ(warm.tokens, cold.tokens);
    EXPECT_EQ(warm.logprobs, cold.logprobs);
    EXPECT_EQ(warm.finished.logits_hash, cold.finished.logits_hash);
  }
}

TEST_P(EngineRequests, AConversationReadsOnlyWhatIsNew) {
  const auto engine = open();
  auto prompt = text(40);
  for (int turn = 0; turn < 10; ++turn) {
    const Recorder out = answer(*engine, greedy(prompt, 6));
    if (turn > 0) {
      // All but the last token that was said, which had not been computed, and the new words.
      EXPECT_EQ(out.finished.timings.prompt_tokens - out.finished.timings.cached_tokens, 1 + 9);
    }
    prompt.insert(prompt.end(), out.tokens.begin(), out.tokens.end());
    const auto more = text(9, 20 + turn);
    prompt.insert(prompt.end(), more.begin(), more.end());
  }
}

// Prompts that share more or less with what came before, in any order, against an engine that knows nothing.
TEST_P(EngineRequests, AnyHistoryBeforeARequestLeavesItsAnswerAsItIs) {
  const auto small = [](EngineOptions& o) { o.chunk_rows = 64; };  // prompts of several chunks, so that marks are made
  const auto engine = open(small);
  std::mt19937 random(3);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<int> known = text(150);
  int reused = 0;
  for (int i = 0; i < 25; ++i) {
    SCOPED_TRACE(fmt::format("request {}", i));
    auto prompt = known;
    switch (below(5)) {
      case 0:
        prompt.resize(static_cast<size_t>(1 + below(static_cast<int>(prompt.size()))));
        break;  // leaves 0 to read
      case 1:
        prompt.push_back(below(96));
        break;  // leaves 1
      case 2:
        prompt[static_cast<size_t>(below(static_cast<int>(prompt.size())))] = below(96);
        break;
      case 3: {
        const auto more = text(1 + below(100), below(50));
        prompt.insert(prompt.end(), more.begin(), more.end());
        break;
      }
      default:
        prompt = text(1 + below(200), below(50));
    }
    if (prompt.size() > 400) prompt.resize(100);
    Request r = greedy(prompt, 1 + below(12));
    if (below(2) == 0) r.sample.temperature = 0.9f, r.sample.seed = random();
    const Recorder warm = answer(*engine, r);
    const auto fresh = open(small);
    const Recorder cold = answer(*fresh, r);
    EXPECT_EQ(warm.tokens, cold.tokens);
    EXPECT_EQ(warm.finished.logits_hash, cold.finished.logits_hash);
    EXPECT_EQ(cold.finished.timings.cached_tokens, 0);
    reused += warm.finished.timings.cached_tokens > 0;
    known = prompt;
    known.insert(known.end(), warm.tokens.begin(), warm.tokens.end());
  }
  EXPECT_GT(reused, 5);
}

// --- Sampling -------------------------------------------------------------------------------------------------------

TEST_P(EngineRequests, SeedsDecideWarmAndCold) {
  const auto engine = open();
  const auto with = [&](uint64_t seed) {
    Request r = greedy(text(30), 20);
    r.sample.temperature = 0.8f, r.sample.seed = seed;
    return answer(*engine, r).tokens;
  };
  const auto first = with(1);
  EXPECT_EQ(with(1), first);
  EXPECT_NE(with(2), first);
  EXPECT_EQ(with(1), first);
}

TEST_P(EngineRequests, PenaltiesSeePromptAndAnswer) {
  const auto engine = open();
  Request r = greedy(text(10), 40);
  r.sample.frequency_penalty = 2, r.sample.presence_penalty = 2, r.sample.penalty_window = -1;
  const Recorder out = answer(*engine, r);
  std::set<int> seen;
  for (const int t : text(10)) seen.insert(t);
  for (const int t : out.tokens) EXPECT_TRUE(seen.insert(t).second) << t << " came again";
}

TEST_P(EngineRequests, ABiasForcesAToken) {
  const auto engine = open();
  Request r = greedy(text(10), 5);
  r.sample.logit_bias = {{TokenId(42), 100.0f}};
  EXPECT_EQ(answer(*engine, r).tokens, std::vector<int>(5, 42));
}

// --- Likelihoods ----------------------------------------------------------------------------------------------------

double logprob(std::span<const float> logits, TokenId token) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float v : logits) sum += std::exp(v - top);
  return logits[static_cast<size_t>(token.v)] - top - std::log(sum);
}

TEST_P(EngineRequests, ScoresAndLogprobsAreThoseOfTheLogitsStepByStep) {
  const auto engine = open([](EngineOptions& o) { o.kv = "f32"; });
  Harness h(GetParam(), path(), 0, "f32", "", 0, 1);
  const auto s = h.sequence();
  const Recorder out = answer(*engine, greedy(text(60), 20));
  auto tokens = ids(text(60));
  for (const int t : out.tokens) tokens.emplace_back(t);
  const auto nll = engine->score(tokens, nullptr).value();
  ASSERT_EQ(nll.size(), tokens.size() - 1);
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const double want = logprob(h.decode(*s, tokens[i]), tokens[i + 1]);
    EXPECT_NEAR(nll[i], -want, 1e-5) << "token " << i + 1;
    if (i + 1 < 60) continue;
    EXPECT_NEAR(out.logprobs[i + 1 - 60], want, 1e-5);
  }
}

TEST_P(EngineRequests, ScoringLeavesTheEngineAsUsableAsBefore) {
  const auto engine = open([](EngineOptions& o) { o.chunk_rows = 64; });
  const Recorder before = answer(*engine, greedy(text(150), 10));
  std::vector<int> progress;
  const auto tokens = ids(text(200, 4));
  const auto nll = engine->score(tokens, [&](int done) { progress.push_back(done); }).value();
  EXPECT_EQ(progress, (std::vector<int>{64, 128, 192, 200}));
  EXPECT_EQ(engine->score(tokens, nullptr).value(), nll);
  EXPECT_EQ(answer(*engine, greedy(text(150), 10)).tokens, before.tokens);
  const Recorder reuse = answer(*engine, greedy(text(150), 10));
  EXPECT_EQ(reuse.tokens, before.tokens);
  EXPECT_EQ(reuse.finished.timings.cached_tokens, 128);
}

TEST_P(EngineRequests, ScoringRefusesWhatItCannotRead) {
  const auto engine = open([](EngineOptions& o) { o.max_context = 100; });
  EXPECT_EQ(engine->score(ids(text(101)), nullptr).status().code(), Code::out_of_range);
  EXPECT_EQ(engine->score(ids({1, 96}), nullptr).status().code(), Code::invalid_argument);
  EXPECT_EQ(engine->score(ids({1, -1}), nullptr).status().code(), Code::invalid_argument);
  EXPECT_EQ(engine->score(ids(text(100)), nullptr)->size(), 99u) << "the whole context";
  EXPECT_TRUE(engine->score(ids({1}), nullptr)->empty());
  EXPECT_TRUE(engine->score({}, nullptr)->empty());
}

}  // namespace
}  // namespace strata
