#include "engine/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/check.h"

namespace strata {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Candidate {
  int id = 0;
  float logit = -kInf;
};

bool better(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

// Values that are looked at together: what none of them can reach is passed over at once. Lanes are what compilers turn
// into vectors.
constexpr size_t kBlock = 64, kLanes = 16;

// The highest of some values; what is not a number does not count.
float top_of(std::span<const float> values) {
  std::array<float, kLanes> top;
  top.fill(-kInf);
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float x = values[i + lane];
      top[lane] = x > top[lane] ? x : top[lane];
    }
  }
  for (; i < values.size(); ++i) top[0] = values[i] > top[0] ? values[i] : top[0];
  float highest = -kInf;
  for (const float x : top) highest = x > highest ? x : highest;
  return highest;
}

// The highest logit, or why this row cannot be used.
Result<float> highest(std::span<const float> logits) {
  const float max = top_of(logits);
  int32_t bad = 0;
  for (const float x : logits) bad += x < kInf ? 0 : 1;  // NaN and +Inf alike
  if (bad == 0 && max > -kInf) return max;
  const char* hint = "the model file is damaged or a computation went wrong; compare with --device plain";
  if (bad == 0) return Status(Code::failed, fmt::format("none of the {} logits is above -Inf", logits.size()), hint);
  size_t nans = 0, first = logits.size();
  for (size_t i = logits.size(); i-- > 0;) {
    if (logits[i] < kInf) continue;
    nans += std::isnan(logits[i]) ? 1 : 0;
    first = i;
  }
  return Status(Code::failed,
                fmt::format("{} of {} logits are not finite ({} NaN, {} +Inf), the first is that of token {}", bad,
                            logits.size(), nans, bad - nans, first),
                hint);
}

// e^-d for d >= 0, within 2e-7 of it or 2e-38; made of what compilers turn into vector instructions.
inline float exp_of_minus(float d) {
  // Bits of floats that are not negative have the order of their values: the smaller of d and 87.
  const float x = -std::bit_cast<float>(std::min(std::bit_cast<int32_t>(d), std::bit_cast<int32_t>(87.0f)));
  const float whole = x * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: rounds to a whole number in the low bits
  const float n = whole - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // x - n ln 2, ln 2 in two parts
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return p * std::bit_cast<float>((std::bit_cast<int32_t>(whole) - 0x4B400000 + 127) << 23);
}

// log(sum(exp(x))), with max the highest x: each exponential and the sums of a few in float, the sum of these in
// double.
double log_sum_exp(std::span<const float> logits, float max) {
  constexpr size_t kStretch = 256;
  std::array<float, kStretch> e{};
  double sum = 0;
  for (size_t begin = 0; begin < logits.size(); begin += kStretch) {
    const std::span<const float> part = logits.subspan(begin, std::min(kStretch, logits.size() - begin));
    for (size_t i = 0; i < part.size(); ++i) e[i] = exp_of_minus(max - part[i]);
    std::fill(e.begin() + static_cast<std::ptrdiff_t>(part.size()), e.end(), 0.0f);
    std::array<float, kLanes> sums{};
    for (size_t i = 0; i < kStretch; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += e[i + lane];
    }
    for (const float x : sums) sum += static_cast<double>(x);
  }
  return max + std::log(sum);
}

// The logits after penalties and bias: the row itself, and the few places where it changed.
class Adjusted {
 public:
  Adjusted(std::span<const float> logits, const SampleParams& params, std::span<const TokenId> history)
      : logits_(logits) {
    const bool penalties = params.repeat_penalty != 1 || params.presence_penalty != 0 || params.frequency_penalty != 0;
    if (penalties && params.penalty_window != 0) penalise(params, history);
    for (const auto& [id, bias] : params.logit_bias) add_bias(id.v, bias);
    tops_.reserve((logits.size() + kBlock - 1) / kBlock);
    for (size_t first = 0; first < logits.size(); first += kBlock)
      tops_.push_back(top_of(logits.subspan(first, std::min(kBlock, logits.size() - first))));
    for (const Candidate& c : changed_) {  // a bound from above is enough
      float& top = tops_[static_cast<size_t>(c.id) / kBlock];
      top = std::max(top, c.logit);
    }
  }

  // f(candidate) in the order of ids, until it returns true; blocks without a logit of at least `floor` are left out.
  // f may raise the floor.
  template <class F>
  void each(const float& floor, F f) const {
    auto change = changed_.begin();
    for (size_t block = 0; block < tops_.size(); ++block) {
      if (tops_[block] < floor) continue;
      const auto first = static_cast<int>(block * kBlock);
      const int last = std::min(first + static_cast<int>(kBlock), static_cast<int>(logits_.size()));
      while (change != changed_.end() && change->id < first) ++change;
      for (int id = first; id < last; ++id) {
        const bool changed = change != changed_.end() && change->id == id;
        if (f(changed ? *change++ : Candidate{id, logits_[static_cast<size_t>(id)]})) return;
      }
    }
  }
  template <class F>
  void each(F f) const {
    each(-kInf, f);
  }

  Candidate best() const {
    Candidate best;
    each(best.logit, [&](const Candidate& c) {
      if (c.logit > best.logit) best = c;
      return false;
    });
    return best;
  }

  std::vector<Candidate> all() const {
    std::vector<Candidate> all;
    all.reserve(logits_.size());
    each([&](const Candidate& c) {
      all.push_back(c);
      return false;
    });
    return all;
  }

  // The n best, best first; all when there are not so many.
  std::vector<Candidate> best(size_t n) const {
    std::vector<Candidate> kept;
    if (n > logits_.size() / 16) {
      kept = all();
      n = std::min(n, kept.size());
      std::nth_element(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(n) - 1, kept.end(), better);
      kept.resize(n);
      std::sort(kept.begin(), kept.end(), better);
      return kept;
    }
    kept.reserve(n);
    float floor = -kInf;
    each(floor, [&](const Candidate& c) {
      if (kept.size() == n) {
        if (!(c.logit > floor)) return false;  // a later id never wins a tie
        std::pop_heap(kept.begin(), kept.end(), better);
        kept.pop_back();
      }
      kept.push_back(c);
      std::push_heap(kept.begin(), kept.end(), better);  // the worst of the kept ones is in front
      if (kept.size() == n) floor = kept.front().logit;
      return false;
    });
    std::sort_heap(kept.begin(), kept.end(), better);
    return kept;
  }

  size_t size() const { return logits_.size(); }

 private:
  void penalise(const SampleParams& params, std::span<const TokenId> history) {
    const auto window = static_cast<size_t>(params.penalty_window);
    if (params.penalty_window > 0 && history.size() > window) history = history.last(window);
    std::vector<int> counts(logits_.size());
    for (const TokenId id : history) {
      CHECK(id.v >= 0 && static_cast<size_t>(id.v) < counts.size(), "token {} in a vocabulary of {}", id.v,
            counts.size());
      ++counts[static_cast<size_t>(id.v)];
    }
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 0) continue;
      double x = logits_[i];
      x = x > 0 ? x / params.repeat_penalty : x * params.repeat_penalty;
      x -= params.presence_penalty + static_cast<double>(params.frequency_penalty) * counts[i];
      changed_.push_back({static_cast<int>(i), finite(x)});
    }
  }

  void add_bias(int id, float bias) {
    const auto at =
        std::lower_bound(changed_.begin(), changed_.end(), id, [](const Candidate& c, int i) { return c.id < i; });
    if (at != changed_.end() && at->id == id) {
      at->logit = finite(static_cast<double>(at->logit) + bias);
    } else {
      changed_.insert(at, {id, finite(static_cast<double>(logits_[static_cast<size_t>(id)]) + bias)});
    }
  }

  // As float; what is too large for one becomes the largest one.
  static float finite(double x) {
    constexpr double kMax = std::numeric_limits<float>::max();
    return static_cast<float>(std::isinf(x) ? x : std::clamp(x, -kMax, kMax));
  }

  std::span<const float> logits_;
  std::vector<Candidate> changed_;  // rising ids
  std::vector<float> tops_;         // of each kBlock ids: no logit is above
};

// Weight of a token before it is divided by their sum.
struct Weigh {
  float max;       // the highest logit, which gets weight 1
  double inverse;  // 1 / temperature
  double operator()(const Candidate& c) const {
    const double x = (static_cast<double>(c.logit) - max) * inverse;
    return std::exp(static_cast<float>(std::max(x, -104.0)));
  }
};

double mass_of(std::span<const Candidate> candidates, const Weigh& weigh) {
  double sum = 0;
  for (const Candidate& c : candidates) sum += weigh(c);
  return sum;
}

// The last of the ranked candidates that is needed to reach `enough`; at least the first, all when they do not reach
// it.
size_t last_needed(std::span<const Candidate> ranked, const Weigh& weigh, double enough) {
  double sum = weigh(ranked[0]);
  size_t i = 0;
  while (sum < enough && i + 1 < ranked.size()) sum += weigh(ranked[++i]);
  return i;
}

// The same among all tokens, in linear time: halves the stretch in which the last needed one lies.
Candidate last_needed(const Adjusted& logits, const Weigh& weigh, double enough) {
  std::vector<Candidate> all = logits.all();
  auto low = all.begin(), high = all.end();
  while (high - low > 64) {
    const auto middle = low + (high - low) / 2;
    std::nth_element(low, middle, high, better);
    const double upper = mass_of({low, middle}, weigh);
    if (upper >= enough) {
      high = middle;
    } else {
      low = middle;
      enough -= upper;
    }
  }
  std::sort(low, high, better);
  return low[static_cast<std::ptrdiff_t>(last_needed({low, high}, weigh, enough))];
}

// The worst token that top_k and top_p keep.
Candidate worst_kept(const Adjusted& logits, const SampleParams& params, const Weigh& weigh) {
  const bool by_k = params.top_k > 0 && static_cast<size_t>(params.top_k) < logits.size();
  if (!by_k && params.top_p >= 1) return {std::numeric_limits<int>::max(), -kInf};
  const std::vector<Candidate> ranked = logits.best(by_k ? static_cast<size_t>(params.top_k) : 64);
  if (params.top_p >= 1) return ranked.back();
  double total = 0;
  if (by_k) {
    total = mass_of(ranked, weigh);
  } else {
    logits.each([&](const Candidate& c) {
      total += weigh(c);
      return false;
    });
  }
  const double enough = static_cast<double>(params.top_p) * total;
  if (by_k || mass_of(ranked, weigh) >= enough) return ranked[last_needed(ranked, weigh, enough)];
  return last_needed(logits, weigh, enough);
}

int draw_token(const Adjusted& logits, const SampleParams& params, double u) {
  const Candidate best = logits.best();
  if (params.temperature == 0) return best.id;
  const Weigh weigh{best.logit, 1.0 / static_cast<double>(params.temperature)};
  const Candidate worst = worst_kept(logits, params, weigh);
  const auto weight = [&](const Candidate& c) {
    if (better(worst, c)) return 0.0;
    const double w = weigh(c);
    return w >= static_cast<double>(params.min_p) ? w : 0.0;
  };
  double total = 0;
  logits.each(worst.logit, [&](const Candidate& c) {
    total += weight(c);
    return false;
  });
  double sum = 0;
  int chosen = -1;
  logits.each(worst.logit, [&](const Candidate& c) {
    const double w = weight(c);
    if (w <= 0) return false;
    sum += w;
    chosen = c.id;  // the last one with weight, should rounding leave the sum short
    return sum > u * total;
  });
  return chosen;
}

// A bijection of 64-bit numbers in which every output bit depends on every input bit (the finaliser of SplitMix64).
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

Status check_range(const char* name, double value, double min, double max) {
  if (value >= min && value <= max) return {};
  return {Code::out_of_range, fmt::format("{}: {:g} is outside {:g} to {:g}", name, value, min, max)};
}

}  // namespace

double uniform_at(uint64_t seed, Pos position) {
  constexpr uint64_t kStep = 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio
  const uint64_t bits = mix(mix(seed + kStep) + kStep * (static_cast<uint64_t>(position) + 1));
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

Status check_params(const SampleParams& p, int vocab) {
  RETURN_IF_ERROR(check_range("temperature", p.temperature, 0, 100));
  if (p.top_k < 0) return {Code::out_of_range, fmt::format("top_k: {} is below 0", p.top_k)};
  RETURN_IF_ERROR(check_range("top_p", p.top_p, 0, 1));
  RETURN_IF_ERROR(check_range("min_p", p.min_p, 0, 1));
  RETURN_IF_ERROR(check_range("repeat_penalty", p.repeat_penalty, 0.1f, 10));
  RETURN_IF_ERROR(check_range("presence_penalty", p.presence_penalty, -2, 2));
  RETURN_IF_ERROR(check_range("frequency_penalty", p.frequency_penalty, -2, 2));
  if (p.penalty_window < -1)
    return {Code::out_of_range, fmt::format("penalty_window: {} is below -1", p.penalty_window)};
  for (const auto& [id, bias] : p.logit_bias) {
    if (id.v < 0 || id.v >= vocab) {
      return {Code::out_of_range, fmt::format("logit_bias: there is no token {}", id.v),
              fmt::format("the vocabulary has tokens 0 to {}", vocab - 1)};
    }
    RETURN_IF_ERROR(check_range(fmt::format("logit_bias of token {}", id.v).c_str(), bias, -100, 100));
  }
  return {};
}

Result<float> logprob_of(std::span<const float> logits, TokenId token) {
  CHECK(token.v >= 0 && static_cast<size_t>(token.v) < logits.size(), "token {} of {} logits", token.v, logits.size());
  ASSIGN_OR_RETURN(const float max, highest(logits));
  return static_cast<float>(logits[static_cast<size_t>(token.v)] - log_sum_exp(logits, max));
}

Result<Drawn> draw(std::span<const float> logits, const SampleParams& params, std::span<const TokenId> history,
                   Pos position) {
  const Result<float> max = highest(logits);
  if (!max.ok()) return max.status().within(fmt::format("position {}", position));
  const Adjusted adjusted(logits, params, history);
  const int token = draw_token(adjusted, params, uniform_at(params.seed, position));
  CHECK(token >= 0, "no token was left to draw at position {}", position);
  return Drawn{TokenId(token), static_cast<float>(logits[static_cast<size_t>(token)] - log_sum_exp(logits, *max))};
}

}  // namespace strata
