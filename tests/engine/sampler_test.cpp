#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace strata {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

// Logits that look drawn: a spread of about +-6, no two equal.
std::vector<float> some_logits(size_t n, uint64_t seed) {
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) {
    const double u = uniform_at(seed, static_cast<Pos>(2 * i)), v = uniform_at(seed, static_cast<Pos>(2 * i + 1));
    x[i] = static_cast<float>(2 * std::sqrt(-2 * std::log(1 - u)) * std::cos(6.28318530718 * v));
  }
  return x;
}

int token(const std::vector<float>& logits, const SampleParams& p, Pos position = 0,
          const std::vector<TokenId>& history = {}) {
  return draw(logits, p, history, position)->token.v;
}

// The documented rule, spelled out slowly: adjusted logits to the tokens that are left, with their probabilities.
std::map<int, double> left_over(const std::vector<float>& logits, const SampleParams& p) {
  std::vector<int> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int a, int b) { return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)]; });
  if (p.top_k > 0 && static_cast<size_t>(p.top_k) < ids.size()) ids.resize(static_cast<size_t>(p.top_k));
  const double best = logits[static_cast<size_t>(ids[0])];
  const auto weight = [&](int id) {
    return std::exp((logits[static_cast<size_t>(id)] - best) / static_cast<double>(p.temperature));
  };
  double total = 0, sum = 0;
  for (const int id : ids) total += weight(id);
  size_t n = 0;
  while (n < ids.size() && (n == 0 || p.top_p >= 1 || sum < static_cast<double>(p.top_p) * total))
    sum += weight(ids[n++]);
  ids.resize(n);
  std::map<int, double> left;
  total = 0;
  for (const int id : ids) {
    if (weight(id) < static_cast<double>(p.min_p)) continue;
    left[id] = weight(id);
    total += weight(id);
  }
  for (auto& [id, w] : left) w /= total;
  return left;
}

int drawn_slowly(const std::map<int, double>& left, double u) {
  double sum = 0;
  for (const auto& [id, w] : left) {
    sum += w;
    if (sum > u) return id;
  }
  return left.rbegin()->first;
}

TEST(Sampler, TemperatureZeroIsArgmaxWhateverElseIsSet) {
  const std::vector<float> logits = some_logits(500, 1);
  const int best = static_cast<int>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  for (const int top_k : {0, 1, 3, 500, 1000000}) {
    for (const float top_p : {0.0f, 0.5f, 1.0f}) {
      for (const float min_p : {0.0f, 1.0f}) {
        for (const uint64_t seed : {0u, 7u}) {
          SampleParams p{.temperature = 0, .top_k = top_k, .top_p = top_p, .min_p = min_p, .seed = seed};
          EXPECT_EQ(token(logits, p, static_cast<Pos>(top_k % 97)), best);
        }
      }
    }
  }
}

TEST(Sampler, EqualLogitsGoToTheLowerId) {
  const std::vector<float> logits = {1, 3, 2, 3, 3};
  EXPECT_EQ(token(logits, {.temperature = 0}), 1);
  EXPECT_EQ(token(logits, {.top_k = 1}), 1);
  EXPECT_EQ(token(logits, {.top_p = 0}), 1);
  std::set<int> seen;
  for (Pos i = 0; i < 200; ++i) seen.insert(token(logits, {.top_k = 2}, i));
  EXPECT_EQ(seen, (std::set<int>{1, 3}));
  std::vector<float> wide(4096, 1.0f);  // long enough for the other way of choosing
  seen.clear();
  for (Pos i = 0; i < 500; ++i) seen.insert(token(wide, {.top_k = 5}, i));
  EXPECT_EQ(seen, (std::set<int>{0, 1, 2, 3, 4}));
}

TEST(Sampler, TopKIsHonouredExactlyFromOneToBeyondTheVocabulary) {
  const std::vector<float> logits = some_logits(300, 2);
  for (const int k : {1, 2, 17, 18, 19, 64, 65, 299}) {
    const SampleParams p{.temperature = 50, .top_k = k};  // nearly even: everything allowed turns up
    std::set<int> seen;
    for (Pos i = 0; i < 20000; ++i) seen.insert(token(logits, p, i));
    std::set<int> allowed;
    for (const auto& [id, w] : left_over(logits, p)) allowed.insert(id);
    EXPECT_EQ(seen, allowed) << k;
  }
  for (Pos i = 0; i < 200; ++i) {
    const int off = token(logits, {.top_k = 0}, i);
    EXPECT_EQ(token(logits, {.top_k = 300}, i), off);
    EXPECT_EQ(token(logits, {.top_k = std::numeric_limits<int>::max()}, i), off);
  }
}

TEST(Sampler, EveryDrawIsThatOfTheRuleSpelledOut) {
  for (const size_t n : {1u, 2u, 7u, 63u, 64u, 65u, 1000u, 20000u}) {
    const std::vector<float> logits = some_logits(n, n);
    for (const float t : {0.01f, 0.7f, 1.0f, 3.0f}) {
      for (const int k : {0, 1, 20, 800}) {
        for (const float top_p : {0.0f, 0.3f, 0.95f, 1.0f}) {
          for (const float min_p : {0.0f, 0.05f, 1.0f}) {
            const SampleParams p{.temperature = t, .top_k = k, .top_p = top_p, .min_p = min_p, .seed = 11};
            const std::map<int, double> left = left_over(logits, p);
            for (Pos i = 0; i < 3; ++i) {
              ASSERT_EQ(token(logits, p, i), drawn_slowly(left, uniform_at(11, i)))
                  << n << " t " << t << " k " << k << " p " << top_p << " m " << min_p << " at " << i;
            }
          }
        }
      }
    }
  }
}

// Sum of (seen - expected)^2 / expected over the tokens that are left.
double chi_square(const std::vector<float>& logits, const SampleParams& p, int draws) {
  const std::map<int, double> left = left_over(logits, p);
  std::map<int, int> seen;
  for (Pos i = 0; i < draws; ++i) ++seen[token(logits, p, i)];
  double sum = 0;
  for (const auto& [id, w] : left) {
    const double expected = w * draws;
    sum += (seen[id] - expected) * (seen[id] - expected) / expected;
  }
  return sum;
}

TEST(Sampler, DrawsFollowTheDistribution) {
  const std::vector<float> logits = {0.5f, 2, -1, 1.5f, 0, 1, -0.5f, 0.25f, 1.75f, -2};
  // Nine degrees of freedom or fewer: 33.7 is passed by chance once in 10,000 times.
  for (const uint64_t seed : {1u, 2u, 3u, 4u, 5u}) {
    EXPECT_LT(chi_square(logits, {.seed = seed}, 50000), 33.7);
    EXPECT_LT(chi_square(logits, {.temperature = 2, .top_k = 6, .seed = seed}, 50000), 33.7);
    EXPECT_LT(chi_square(logits, {.temperature = 0.7f, .top_p = 0.9f, .seed = seed}, 50000), 33.7);
    EXPECT_LT(chi_square(logits, {.min_p = 0.2f, .seed = seed}, 50000), 33.7);
  }
}

TEST(Sampler, TheSameSeedAndPositionGiveTheSameDrawAndOthersDoNot) {
  const std::vector<float> logits = some_logits(1000, 3);
  const SampleParams p{.temperature = 0.8f, .seed = 42}, other{.temperature = 0.8f, .seed = 43};
  int other_seed = 0, other_position = 0;
  for (Pos i = 0; i < 200; ++i) {
    EXPECT_EQ(token(logits, p, i), token(logits, p, i));
    other_seed += token(logits, p, i) != token(logits, other, i) ? 1 : 0;
    other_position += token(logits, p, i) != token(logits, p, i + 1) ? 1 : 0;
  }
  EXPECT_GT(other_seed, 100);
  EXPECT_GT(other_position, 100);
}

TEST(Sampler, UniformsAreEvenAndNeighboursUnrelated) {
  constexpr int kDraws = 100000, kBins = 16;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
    std::vector<int> bins(kBins), pairs(kBins * kBins);
    for (Pos i = 0; i < kDraws; ++i) {
      const double u = uniform_at(seed, i);
      ASSERT_GE(u, 0);
      ASSERT_LT(u, 1);
      const int a = static_cast<int>(u * kBins), b = static_cast<int>(uniform_at(seed, i + 1) * kBins);
      ++bins[static_cast<size_t>(a)];
      ++pairs[static_cast<size_t>(a * kBins + b)];
    }
    const auto chi = [](const std::vector<int>& counts) {
      const double expected = static_cast<double>(kDraws) / static_cast<double>(counts.size());
      double sum = 0;
      for (const int c : counts) sum += (c - expected) * (c - expected) / expected;
      return sum;
    };
    EXPECT_LT(chi(bins), 44.3);  // 15 degrees of freedom, once in 10,000
    EXPECT_LT(chi(pairs), 347);  // 255 degrees of freedom, once in 10,000
  }
  std::set<double> seeds;
  for (uint64_t seed = 0; seed < 1000; ++seed) seeds.insert(uniform_at(seed, 5));
  EXPECT_EQ(seeds.size(), 1000u);
}

TEST(Sampler, RowsThatAreNotFiniteFailWithCountAndPlace) {
  std::vector<float> logits = some_logits(100, 4);
  logits[30] = kNan;
  logits[20] = kInf;
  logits[90] = -kNan;
  const Status status = draw(logits, {.temperature = 0}, {}, 17).status();
  EXPECT_EQ(status.code(), Code::failed);
  EXPECT_EQ(status.message(),
            "position 17: 3 of 100 logits are not finite (2 NaN, 1 +Inf), the first is that of token 20");
  EXPECT_FALSE(status.hint().empty());
  EXPECT_EQ(logprob_of(logits, TokenId(0)).status().code(), Code::failed);
  const std::vector<float> none(50, -kInf);
  EXPECT_EQ(draw(none, {}, {}, 3).status().message(), "position 3: none of the 50 logits is above -Inf");
  EXPECT_FALSE(draw(std::vector<float>{}, {}, {}, 0).ok());
}

TEST(Sampler, SingleTokensMayBeRuledOutByMinusInfinity) {
  std::vector<float> logits(64, -kInf);
  logits[5] = 1;
  logits[40] = 1.5f;
  for (const int k : {0, 1, 20, 64}) {
    std::set<int> seen;
    for (Pos i = 0; i < 300; ++i) seen.insert(token(logits, {.top_k = k, .top_p = 0.999f}, i));
    EXPECT_EQ(seen, k == 1 ? std::set<int>{40} : (std::set<int>{5, 40}));
  }
  EXPECT_EQ(token(logits, {.temperature = 0}), 40);
  EXPECT_EQ(token(logits, {.temperature = 0, .logit_bias = {{TokenId(7), 100.0f}}}), 40) << "no bias brings it back";
}

TEST(Sampler, BiasMovesATokenAlsoAtTemperatureZero) {
  const std::vector<float> logits = {1, 5, 2, 4};
  EXPECT_EQ(token(logits, {.temperature = 0, .logit_bias = {{TokenId(2), 10.0f}}}), 2);
  EXPECT_EQ(token(logits, {.temperature = 0, .logit_bias = {{TokenId(1), -100.0f}}}), 3);
  EXPECT_EQ(token(logits, {.temperature = 0, .logit_bias = {{TokenId(0), 3.0f}, {TokenId(0), 3.0f}}}), 0)
      << "they add up";
  std::set<int> seen;
  for (Pos i = 0; i < 2000; ++i)
    seen.insert(token(logits, {.temperature = 5, .logit_bias = {{TokenId(1), -100.0f}}}, i));
  EXPECT_EQ(seen, (std::set<int>{0, 2, 3}));
}

TEST(Sampler, PenaltiesFollowTheirFormulas) {
  const std::vector<float> logits = {4, 3, -1, -2};
  const std::vector<TokenId> history = {TokenId(0), TokenId(2), TokenId(0), TokenId(0)};
  // Each penalty just below and just above what lets token 1 (or, among the negative ones, token 3) pass.
  EXPECT_EQ(token(logits, {.temperature = 0, .repeat_penalty = 1.33f}, 0, history), 0);
  EXPECT_EQ(token(logits, {.temperature = 0, .repeat_penalty = 1.34f}, 0, history), 1);
  EXPECT_EQ(token(logits, {.temperature = 0, .presence_penalty = 0.99f}, 0, history), 0);
  EXPECT_EQ(token(logits, {.temperature = 0, .presence_penalty = 1.01f}, 0, history), 1);
  EXPECT_EQ(token(logits, {.temperature = 0, .frequency_penalty = 0.33f}, 0, history), 0);
  EXPECT_EQ(token(logits, {.temperature = 0, .frequency_penalty = 0.34f}, 0, history), 1);
  const std::vector<float> negative = {-9, -9, -1, -2};
  EXPECT_EQ(token(negative, {.temperature = 0, .repeat_penalty = 1.9f}, 0, history), 2);
  EXPECT_EQ(token(negative, {.temperature = 0, .repeat_penalty = 2.1f}, 0, history), 3);
  EXPECT_EQ(token(logits, {.temperature = 0, .presence_penalty = -1.5f}, 0, {TokenId(1)}), 1)
      << "a negative one rewards";
}

TEST(Sampler, PenaltiesComeBeforeBias) {
  // 6 / 3 + 1 = 3 loses against 3.5; (6 + 1) / 3 = 2.33 would as well, but 6 / 3 + 1.6 = 3.6 wins where 7.6 / 3 would
  // not.
  const std::vector<float> logits = {6, 3.5f};
  const std::vector<TokenId> history = {TokenId(0)};
  EXPECT_EQ(token(logits, {.temperature = 0, .repeat_penalty = 3, .logit_bias = {{TokenId(0), 1.0f}}}, 0, history), 1);
  EXPECT_EQ(token(logits, {.temperature = 0, .repeat_penalty = 3, .logit_bias = {{TokenId(0), 1.6f}}}, 0, history), 0);
}

TEST(Sampler, PenaltiesLookAtTheWindowAlone) {
  const std::vector<float> logits = {4, 3};
  std::vector<TokenId> history(100, TokenId(1));
  history.front() = TokenId(0);
  SampleParams p{.temperature = 0, .presence_penalty = 2, .penalty_window = 99};
  EXPECT_EQ(token(logits, p, 0, history), 0) << "token 0 lies just outside, token 1 is penalised";
  p.frequency_penalty = 0;
  p.penalty_window = -1;
  EXPECT_EQ(token({4, 3.5f}, p, 0, history), 0) << "both are penalised";
  EXPECT_EQ(token({4, 3.5f}, p, 0, {TokenId(0)}), 1);
  p.penalty_window = 0;
  EXPECT_EQ(token({4, 3.5f}, p, 0, {TokenId(0)}), 0) << "no window, no penalty";
}

TEST(Sampler, TheLogProbabilityIsThatOfTheUnmodifiedSoftmax) {
  const std::vector<float> logits = some_logits(5000, 5);
  long double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<long double>(x));
  for (const float temperature : {0.0f, 0.3f, 2.0f}) {
    const Drawn d = *draw(logits, {.temperature = temperature, .top_k = 50, .logit_bias = {{TokenId(9), 5.0f}}}, {}, 1);
    const auto exact = static_cast<double>(logits[static_cast<size_t>(d.token.v)] - std::log(sum));
    EXPECT_NEAR(d.logprob, exact, 2e-6);
    EXPECT_EQ(*logprob_of(logits, d.token), d.logprob);
  }
}

TEST(Sampler, ExtremeLogitsAndTemperaturesStayInOrder) {
  const float big = std::numeric_limits<float>::max();
  EXPECT_EQ(token({-big, big, 0}, {.temperature = 100}), 1);
  EXPECT_EQ(token({1, 1.0001f, 0}, {.temperature = std::numeric_limits<float>::denorm_min()}), 1);
  EXPECT_EQ(token({-big, -big}, {.temperature = 0, .repeat_penalty = 10}, 0, {TokenId(0), TokenId(1)}), 0);
  EXPECT_EQ(token({big, 0}, {.repeat_penalty = 0.1f, .logit_bias = {{TokenId(0), 100.0f}}}, 0, {TokenId(0)}), 0);
  EXPECT_EQ(draw(std::vector<float>{7}, {}, {}, 0)->logprob, 0.0f);
}

TEST(Sampler, ALargeVocabularyGivesTheSameDrawsAsTheRule) {
  const std::vector<float> logits = some_logits(248320, 6);
  for (const SampleParams& p :
       {SampleParams{.top_k = 20, .top_p = 0.95f}, SampleParams{.temperature = 2, .top_p = 0.9f},
        SampleParams{.temperature = 0.5f, .top_p = 0.5f, .min_p = 0.01f}}) {
    const std::map<int, double> left = left_over(logits, p);
    for (Pos i = 0; i < 2; ++i) EXPECT_EQ(token(logits, p, i), drawn_slowly(left, uniform_at(p.seed, i)));
  }
}

TEST(Sampler, ParametersOutsideTheirRangesAreNamed) {
  EXPECT_TRUE(check_params({}, 10).ok());
  EXPECT_TRUE(
      check_params({.temperature = 0, .top_k = 1 << 30, .top_p = 0, .min_p = 1, .penalty_window = -1}, 10).ok());
  const auto error = [](const SampleParams& p) { return check_params(p, 10).text(); };
  EXPECT_EQ(error({.temperature = -1}), "temperature: -1 is outside 0 to 100");
  EXPECT_EQ(error({.temperature = kNan}), "temperature: nan is outside 0 to 100");
  EXPECT_EQ(error({.top_p = 1.5f}), "top_p: 1.5 is outside 0 to 1");
  EXPECT_EQ(error({.min_p = -0.5f}), "min_p: -0.5 is outside 0 to 1");
  EXPECT_EQ(error({.repeat_penalty = 0}), "repeat_penalty: 0 is outside 0.1 to 10");
  EXPECT_EQ(error({.presence_penalty = 3}), "presence_penalty: 3 is outside -2 to 2");
  EXPECT_EQ(error({.frequency_penalty = kInf}), "frequency_penalty: inf is outside -2 to 2");
  EXPECT_EQ(error({.penalty_window = -2}), "penalty_window: -2 is below -1");
  EXPECT_EQ(error({.top_k = -1}), "top_k: -1 is below 0");
  EXPECT_EQ(error({.logit_bias = {{TokenId(10), 1.0f}}}),
            "logit_bias: there is no token 10; the vocabulary has tokens 0 to 9");
  EXPECT_EQ(error({.logit_bias = {{TokenId(3), 101.0f}}}), "logit_bias of token 3: 101 is outside -100 to 100");
}

}  // namespace
}  // namespace strata
