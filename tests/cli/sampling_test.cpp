#include "cli/sampling.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "temp_dir.h"
#include "tensor/gguf_writer.h"

namespace strata {
namespace {

// A model file with the sampling keys that `set` gives it.
template <class Set>
Gguf file_with(const TempDir& dir, Set set) {
  GgufWriter writer;
  writer.set_string("general.architecture", "any");
  set(writer);
  const std::string path = dir.path("model.gguf");
  EXPECT_TRUE(writer.write(path).ok());
  return Gguf::open(path).value();
}

struct Chosen {
  SampleParams params;
  std::string said;
};

Chosen choose(const Gguf& file, const std::vector<std::string>& args) {
  Chosen chosen;
  Log log([&](std::string_view text) { chosen.said += text; }, [] { return 0.0; }, false, 80);
  const Options options = *parse_options(**find_command("run"), args);
  chosen.params = *sample_params(options, file, 100, log);
  return chosen;
}

Status refused(const Gguf& file, const std::vector<std::string>& args) {
  Log log([](std::string_view) {}, [] { return 0.0; }, false, 80);
  return sample_params(*parse_options(**find_command("run"), args), file, 100, log).status();
}

TEST(Sampling, WithoutAnythingTheDefaultsDependOnThinking) {
  const TempDir dir;
  const Gguf file = file_with(dir, [](GgufWriter&) {});
  const SampleParams off = choose(file, {}).params, on = choose(file, {"--think", "on"}).params;
  EXPECT_EQ(off.temperature, 0.7f);
  EXPECT_EQ(off.top_p, 0.8f);
  EXPECT_EQ(on.temperature, 1.0f);
  EXPECT_EQ(on.top_p, 0.95f);
  EXPECT_EQ(on.top_k, 20);
  EXPECT_TRUE(check_params(off, 100).ok());
}

TEST(Sampling, TheFileComesBeforeTheDefaultsAndTheUserBeforeTheFile) {
  const TempDir dir;
  const Gguf file = file_with(dir, [](GgufWriter& w) {
    w.set<float>("general.sampling.temp", 0.25f);
    w.set<int32_t>("general.sampling.top_k", 7);
    w.set<float>("general.sampling.top_p", 0.5f);
    w.set<float>("general.sampling.min_p", 0.125f);
  });
  const SampleParams own = choose(file, {"--think", "on"}).params;
  EXPECT_EQ(own.temperature, 0.25f);
  EXPECT_EQ(own.top_k, 7);
  EXPECT_EQ(own.top_p, 0.5f);
  EXPECT_EQ(own.min_p, 0.125f);
  const SampleParams user = choose(file, {"--temperature", "2", "--top-k", "0", "--top-p", "1", "--min-p", "0"}).params;
  EXPECT_EQ(user.temperature, 2.0f);
  EXPECT_EQ(user.top_k, 0);
  EXPECT_EQ(user.top_p, 1.0f);
  EXPECT_EQ(user.min_p, 0.0f);
}

TEST(Sampling, ARecommendationOutOfRangeIsPassedOverWithAWarning) {
  const TempDir dir;
  const Gguf file = file_with(dir, [](GgufWriter& w) {
    w.set<float>("general.sampling.temp", -3.0f);
    w.set_string("general.sampling.top_k", "many");
  });
  const Chosen chosen = choose(file, {});
  EXPECT_EQ(chosen.params.temperature, 0.7f);
  EXPECT_EQ(chosen.params.top_k, 20);
  EXPECT_NE(chosen.said.find("warning: model.gguf: general.sampling.temp is not 0 to 100; 0.7 is used"),
            std::string::npos)
      << chosen.said;
  EXPECT_NE(chosen.said.find("general.sampling.top_k"), std::string::npos) << chosen.said;
  EXPECT_EQ(choose(file, {"--temperature", "1", "--top-k", "1"}).said, "") << "what is not used is not mentioned";
}

TEST(Sampling, TheSeedIsTheUsersOrAnotherOneEachTime) {
  const TempDir dir;
  const Gguf file = file_with(dir, [](GgufWriter&) {});
  EXPECT_EQ(choose(file, {"--seed", "9007199254740991"}).params.seed, 9007199254740991u);
  EXPECT_NE(choose(file, {}).params.seed, choose(file, {}).params.seed);
}

TEST(Sampling, BiasesAreReadAndChecked) {
  const TempDir dir;
  const Gguf file = file_with(dir, [](GgufWriter&) {});
  const SampleParams p = choose(file, {"--logit-bias", "5=-100", "--logit-bias", "99=1.5"}).params;
  ASSERT_EQ(p.logit_bias.size(), 2u);
  EXPECT_EQ(p.logit_bias[0], std::make_pair(TokenId(5), -100.0f));
  EXPECT_EQ(p.logit_bias[1], std::make_pair(TokenId(99), 1.5f));
  EXPECT_EQ(refused(file, {"--logit-bias", "5"}).text(),
            "option --logit-bias: '5' is not ID=BIAS; for example --logit-bias 1234=-100");
  EXPECT_EQ(refused(file, {"--logit-bias", "100=1"}).text(), "option --logit-bias, ID: 100 is outside 0 to 99");
  EXPECT_EQ(refused(file, {"--logit-bias", "1=nan"}).text(), "option --logit-bias, BIAS: 'nan' is not a number");
  EXPECT_EQ(refused(file, {"--logit-bias", "=1"}).text(), "option --logit-bias, ID: '' is not a whole number");
}

// The table cannot include the engine, so its ranges are repeated there.
TEST(Sampling, EveryValueThatTheOptionTableAllowsIsOneThatTheEngineTakes) {
  const TempDir dir;
  const Gguf file = file_with(dir, [](GgufWriter&) {});
  for (const OptionSpec& option : option_table()) {
    const std::string name = option.name;
    const bool of_sampling = name == "temperature" || name == "top-k" || name == "top-p" || name == "min-p" ||
                             name == "penalty-window" || name.ends_with("-penalty");
    if (!of_sampling) continue;
    for (const double value : {option.min, option.max}) {
      const Status status = check_params(choose(file, {"--" + name, fmt::format("{}", value)}).params, 100);
      EXPECT_TRUE(status.ok()) << name << ": " << status.text();
    }
  }
}

TEST(Sampling, JsonShowsNumbersAsTheyWereWritten) {
  const TempDir dir;
  const Gguf file = file_with(dir, [](GgufWriter&) {});
  const SampleParams p = choose(file, {"--top-p", "0.95", "--seed", "7", "--logit-bias", "3=0.1"}).params;
  EXPECT_EQ(
      dump_python_style(sampling_json(p)),
      R"({"temperature": 0.7, "top_k": 20, "top_p": 0.95, "min_p": 0.0, "repeat_penalty": 1.0, "presence_penalty": 0.0, )"
      R"("frequency_penalty": 0.0, "penalty_window": 64, "logit_bias": {"3": 0.1}, "seed": 7})");
}

}  // namespace
}  // namespace strata
