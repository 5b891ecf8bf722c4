#include "cli/sampling.h"

#include <fmt/format.h>

#include <cstdlib>
#include <random>

namespace strata {
namespace {

struct Recommended {
  const char* option;
  const char* key;  // in the model file
  double otherwise, otherwise_thinking;
};

// What this family of models is run with; the option table says the same in words.
constexpr Recommended kTemperature{"temperature", "general.sampling.temp", 0.7, 1.0};
constexpr Recommended kTopK{"top-k", "general.sampling.top_k", 20, 20};
constexpr Recommended kTopP{"top-p", "general.sampling.top_p", 0.8, 0.95};
constexpr Recommended kMinP{"min-p", "general.sampling.min_p", 0, 0};

const OptionSpec& spec_of(const char* name) {
  for (const OptionSpec& option : option_table()) {
    if (std::string_view(option.name) == name) return option;
  }
  CHECK(false, "--{} is not in the table", name);
}

double choose(const Recommended& r, const Options& options, const Gguf& file, Log& log) {
  if (const auto given = options.number_if_given(r.option)) return *given;
  const double otherwise = options.text("think") == "on" ? r.otherwise_thinking : r.otherwise;
  if (file.find(r.key) == nullptr) return otherwise;
  const Result<double> value = file.get_number(r.key);
  const OptionSpec& spec = spec_of(r.option);
  if (value.ok() && *value >= spec.min && *value <= spec.max) return *value;
  log.warning(
      fmt::format("{}: {} is not {:g} to {:g}; {:g} is used", file.file_name(), r.key, spec.min, spec.max, otherwise));
  return otherwise;
}

Status read_biases(const Options& options, int vocab, SampleParams& params) {
  for (const std::string& text : options.texts("logit-bias")) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      return {Code::invalid_argument, fmt::format("option --logit-bias: '{}' is not ID=BIAS", text),
              "for example --logit-bias 1234=-100"};
    }
    ASSIGN_OR_RETURN(const int64_t id, parse_integer(text.substr(0, equals), 0, vocab - 1, "option --logit-bias, ID"));
    ASSIGN_OR_RETURN(const double bias, parse_number(text.substr(equals + 1), -100, 100, "option --logit-bias, BIAS"));
    params.logit_bias.emplace_back(TokenId(static_cast<int32_t>(id)), static_cast<float>(bias));
  }
  return {};
}

// The double that prints as the float does: 0.95, not 0.949999988079071.
double as_written(float x) {
  return std::strtod(fmt::format("{}", x).c_str(), nullptr);
}

}  // namespace

Result<SampleParams> sample_params(const Options& options, const Gguf& file, int vocab, Log& log) {
  SampleParams p;
  p.temperature = static_cast<float>(choose(kTemperature, options, file, log));
  p.top_k = static_cast<int>(choose(kTopK, options, file, log));
  p.top_p = static_cast<float>(choose(kTopP, options, file, log));
  p.min_p = static_cast<float>(choose(kMinP, options, file, log));
  p.repeat_penalty = static_cast<float>(options.number("repeat-penalty"));
  p.presence_penalty = static_cast<float>(options.number("presence-penalty"));
  p.frequency_penalty = static_cast<float>(options.number("frequency-penalty"));
  p.penalty_window = static_cast<int>(options.integer("penalty-window"));
  p.seed = options.given("seed") ? static_cast<uint64_t>(options.integer("seed")) : std::random_device()();
  RETURN_IF_ERROR(read_biases(options, vocab, p));
  return p;
}

Json sampling_json(const SampleParams& p) {
  Json out = {{"temperature", as_written(p.temperature)},
              {"top_k", p.top_k},
              {"top_p", as_written(p.top_p)},
              {"min_p", as_written(p.min_p)},
              {"repeat_penalty", as_written(p.repeat_penalty)},
              {"presence_penalty", as_written(p.presence_penalty)},
              {"frequency_penalty", as_written(p.frequency_penalty)},
              {"penalty_window", p.penalty_window},
              {"logit_bias", Json::object()},
              {"seed", p.seed}};
  for (const auto& [id, bias] : p.logit_bias) out["logit_bias"][std::to_string(id.v)] = as_written(bias);
  return out;
}

}  // namespace strata
