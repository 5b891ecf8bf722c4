#include "base/options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace strata {
namespace {

const CommandSpec& command(const std::string& name) {
  return **find_command(name);
}

Result<Options> parse(const std::string& name, const std::vector<std::string>& args) {
  return parse_options(command(name), args);
}

std::string error_of(const std::string& name, const std::vector<std::string>& args) {
  const Result<Options> parsed = parse(name, args);
  return parsed.ok() ? "accepted" : parsed.status().text();
}

TEST(Options, TheTableIsSound) {
  std::set<std::pair<std::string, std::string>> names;
  for (const OptionSpec& o : option_table()) {
    SCOPED_TRACE(o.name);
    EXPECT_NE(o.commands, 0u);
    EXPECT_GT(std::string(o.help).size(), 10u);
    const bool number = o.type == OptionType::integer || o.type == OptionType::number;
    EXPECT_EQ(number, o.min < o.max);
    EXPECT_EQ(o.type == OptionType::choice, o.choices[0] != '\0');
    EXPECT_EQ(o.type == OptionType::flag || o.type == OptionType::choice, o.value[0] == '\0');
    const int defaults = (o.preset[0] != '\0' ? 1 : 0) + (o.automatic[0] != '\0' ? 1 : 0);
    EXPECT_EQ(defaults, o.type == OptionType::flag || o.required ? 0 : 1) << "one kind of default";
    for (const CommandSpec& c : command_table()) {
      if ((o.commands & c.bit) == 0) continue;
      EXPECT_TRUE(names.insert({c.name, o.name}).second) << "declared twice for " << c.name;
      if (o.preset[0] == '\0') continue;
      std::vector<std::string> args = {std::string("--") + o.name, o.preset};
      if (std::string(c.name) == "eval") args.insert(args.end(), {"--text", "x"});
      if (c.needs_argument) args.emplace_back("x");
      EXPECT_TRUE(parse_options(c, args).ok()) << "the default is not a legal value";
    }
  }
}

TEST(Options, ValuesComeBackAsTheirTypes) {
  const Options o = *parse(
      "run", {"--temperature", "0.25", "--top-k=7", "--json", "--think", "on", "--system", "Be brief.", "Hello"});
  EXPECT_EQ(o.number("temperature"), 0.25);
  EXPECT_EQ(o.integer("top-k"), 7);
  EXPECT_TRUE(o.flag("json"));
  EXPECT_FALSE(o.flag("raw"));
  EXPECT_EQ(o.text("think"), "on");
  EXPECT_EQ(o.text("system"), "Be brief.");
  EXPECT_EQ(o.arguments(), std::vector<std::string>{"Hello"});
}

TEST(Options, WhatIsNotGivenHasItsDefaultOrNone) {
  const Options o = *parse("run", {});
  EXPECT_EQ(o.text("think"), "off");
  EXPECT_EQ(o.number("repeat-penalty"), 1.0);
  EXPECT_EQ(o.integer("penalty-window"), 64);
  EXPECT_EQ(o.text("model"), "");
  EXPECT_FALSE(o.given("seed"));
  EXPECT_EQ(o.number_if_given("top-p"), std::nullopt);
  EXPECT_EQ(*parse("run", {"--top-k", "3"})->number_if_given("top-k"), 3.0);
  EXPECT_TRUE(o.arguments().empty());
}

TEST(Options, APromptIsTakenAsItStands) {
  for (const char* prompt :
       {"[1,2,3]",  "[a]",   "a,b c;d", "{\"x\": 1}", "%%",         "'quoted'", "\"quoted\"", "-",
        "-5 and 7", "=",     "a=b",     "$HOME",      "line\nline", "",         " ",          "\xF0\x9F\xA6\x8A",
        "#",        "[[x]]", "++",      "true",       "-0.5"}) {
    const Result<Options> parsed = parse("run", {prompt});
    ASSERT_TRUE(parsed.ok()) << prompt << ": " << parsed.status().text();
    EXPECT_EQ(parsed->arguments(), std::vector<std::string>{prompt});
    const Result<Options> value = parse("run", {"--system", prompt, "x"});
    ASSERT_TRUE(value.ok()) << prompt << ": " << value.status().text();
    EXPECT_EQ(value->text("system"), prompt);
  }
}

TEST(Options, AfterTwoDashesEverythingIsThePrompt) {
  EXPECT_EQ(parse("run", {"--seed", "1", "--", "--seed"})->arguments(), std::vector<std::string>{"--seed"});
  EXPECT_EQ(parse("run", {"--json", "--", "--seed"})->arguments(), std::vector<std::string>{"--seed"});
  EXPECT_EQ(parse("run", {"--", "-hello"})->arguments(), std::vector<std::string>{"-hello"});
  EXPECT_EQ(parse("run", {"--", "--"})->arguments(), std::vector<std::string>{"--"});
}

TEST(Options, RepeatableOptionsKeepTheirOrder) {
  const std::vector<std::string> expected = {"5=1", "3=-100", "5=2"};
  EXPECT_EQ(
      parse("run", {"--logit-bias", "5=1", "--logit-bias=3=-100", "x", "--logit-bias", "5=2"})->texts("logit-bias"),
      expected);
}

TEST(Options, AnUnknownOptionIsNamedWithTheNearestOne) {
  EXPECT_EQ(error_of("run", {"--temprature", "1", "x"}),
            "strata run has no option --temprature; did you mean --temperature? see strata run --help");
  EXPECT_EQ(error_of("run", {"--temp=1", "x"}),
            "strata run has no option --temp; did you mean --temperature? see strata run --help");
  EXPECT_EQ(error_of("info", {"--seed", "1"}),
            "strata info has no option --seed (strata run has); see strata info --help");
  EXPECT_EQ(error_of("run", {"--zzzzzz"}), "strata run has no option --zzzzzz; see strata run --help");
  EXPECT_EQ(error_of("run", {"-q", "x"}), "strata run has no option -q; see strata run --help");
}

TEST(Options, AValueOutsideItsRangeIsNamedWithTheRange) {
  EXPECT_EQ(error_of("run", {"--temperature", "-1"}),
            "option --temperature: -1 is outside 0 to 100; see strata run --help");
  EXPECT_EQ(error_of("run", {"--top-p", "1.5"}), "option --top-p: 1.5 is outside 0 to 1; see strata run --help");
  EXPECT_EQ(error_of("run", {"--top-k", "99999999999999999999"}),
            "option --top-k: 99999999999999999999 is outside 0 to 2147483647; see strata run --help");
  EXPECT_EQ(error_of("run", {"--temperature", "1e999"}),
            "option --temperature: 1e999 is outside 0 to 100; see strata run --help");
  EXPECT_EQ(error_of("run", {"--max-tokens", "0"}),
            "option --max-tokens: 0 is outside 1 to 2147483647; see strata run --help");
}

TEST(Options, AValueOfTheWrongTypeIsNamed) {
  EXPECT_EQ(error_of("run", {"--threads", "four"}),
            "option --threads: 'four' is not a whole number; see strata run --help");
  for (const char* text : {"2.5", "1e3", "0x10", "", " 1", "1 ", "+1", "--1", "nan"}) {
    EXPECT_EQ(error_of("run", {"--threads", text}),
              std::string("option --threads: '") + text + "' is not a whole number; see strata run --help");
  }
  for (const char* text : {"nan", "inf", "-inf", "", "one", "1,5", "0x1p3", "1.0f"}) {
    EXPECT_EQ(error_of("run", {"--temperature", text}),
              std::string("option --temperature: '") + text + "' is not a number; see strata run --help");
  }
  EXPECT_EQ(error_of("run", {"--kv", "f8"}), "option --kv: 'f8' is none of auto, f32, f16; see strata run --help");
  EXPECT_EQ(error_of("run", {"--json=yes"}), "option --json takes no value; see strata run --help");
}

TEST(Options, AMissingValueIsNamed) {
  EXPECT_EQ(error_of("run", {"x", "--seed"}), "option --seed needs a value (N); see strata run --help");
  EXPECT_EQ(error_of("run", {"--seed="}), "option --seed: '' is not a whole number; see strata run --help");
  EXPECT_EQ(error_of("run", {"--system", "--", "x"}), "option --system needs a value (TEXT); see strata run --help");
  EXPECT_EQ(error_of("run", {"--model", "--json", "x"}),
            "option --model needs a value (FILE), found the option --json; see strata run --help");
  EXPECT_EQ(error_of("run", {"--think"}), "option --think needs a value (on|off); see strata run --help");
  EXPECT_EQ(error_of("run", {"--model", ""}), "option --model: the name of the file is empty; see strata run --help");
}

TEST(Options, AnOptionMayMeanAnotherThingForAnotherCommand) {
  EXPECT_EQ(parse("run", {"--mtp", "draft.gguf"})->text("mtp"), "draft.gguf");
  EXPECT_TRUE(parse("synth", {"--mtp", "a.gguf"})->flag("mtp"));
  EXPECT_FALSE(parse("run", {})->given("seed"));
  EXPECT_EQ(parse("synth", {"a.gguf"})->integer("seed"), 1);
}

TEST(Options, ASingleOptionGivenTwiceIsAnError) {
  EXPECT_EQ(error_of("run", {"--seed", "1", "--seed", "2"}),
            "option --seed is given 2 times (1, 2); it takes one value; see strata run --help");
  EXPECT_TRUE(parse("run", {"--json", "--json"}).ok());
}

TEST(Options, ArgumentsAreCounted) {
  EXPECT_EQ(error_of("run", {"Tell", "me"}),
            "strata run takes one PROMPT, found 2 (Tell, me); put the whole prompt in quotes: strata run \"Tell me a "
            "story\"");
  EXPECT_EQ(error_of("eval", {"--text", "a", "b"}),
            "strata eval takes no argument, found 1 (b); name the text with --text FILE");
  EXPECT_EQ(error_of("eval", {}), "strata eval needs --text FILE; see strata eval --help");
  EXPECT_EQ(error_of("synth", {}), "strata synth needs OUT.gguf [KEY=VALUE ...]; see strata synth --help");
  EXPECT_EQ(parse("synth", {"a.gguf", "layers=4", "--mtp"})->arguments(),
            (std::vector<std::string>{"a.gguf", "layers=4"}));
}

TEST(Options, CommandsAreFoundOrTheNearestIsNamed) {
  EXPECT_STREQ((*find_command("eval"))->name, "eval");
  EXPECT_EQ(find_command("tokenise").status().text(),
            "there is no command 'tokenise'; did you mean tokenize? see strata --help");
  EXPECT_EQ(find_command("Tell me a story").status().text(),
            "there is no command 'Tell me a story'; to send a prompt: strata run \"PROMPT\"");
  EXPECT_EQ(find_command("--json").status().text(),
            "'--json' is not an option of strata itself; a command comes first; see strata --help");
}

TEST(Options, TheNearestNameIsNeverFarFetched) {
  const std::vector<std::string> names = {"seed", "system", "top-k", "top-p"};
  EXPECT_EQ(nearest_name("sede", names), "seed");
  EXPECT_EQ(nearest_name("sys", names), "system");
  EXPECT_EQ(nearest_name("topk", names), "top-k");
  EXPECT_EQ(nearest_name("colour", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name(std::string(100000, 's'), names), "");
}

TEST(Options, HelpNamesEveryOptionOfTheCommandAndFitsATerminal) {
  for (const CommandSpec& c : command_table()) {
    const std::string help = help_text(c);
    for (const OptionSpec& o : option_table()) {
      const bool listed = help.find(std::string("  --") + o.name + " ") != std::string::npos ||
                          help.find(std::string("  --") + o.name + "\n") != std::string::npos;
      const bool wanted = std::any_of(option_table().begin(), option_table().end(), [&](const OptionSpec& other) {
        return (other.commands & c.bit) != 0 && std::string(other.name) == o.name;
      });
      EXPECT_EQ(listed, wanted) << c.name << " " << o.name;
    }
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
    EXPECT_NE(overview_text().find(std::string("  ") + c.name + " "), std::string::npos);
  }
}

TEST(Options, TheGeneratedPageIsCurrent) {
  std::ifstream file(STRATA_SOURCE_DIR "/docs/options.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), options_markdown()) << "write it anew: build/release/strata options-md > docs/options.md";
}

TEST(Options, EveryFailureHasAnExitCode) {
  EXPECT_EQ(exit_code_of(Code::ok), ExitCode::ok);
  EXPECT_EQ(exit_code_of(Code::invalid_argument), ExitCode::usage);
  EXPECT_EQ(exit_code_of(Code::out_of_range), ExitCode::usage);
  EXPECT_EQ(exit_code_of(Code::not_found), ExitCode::file);
  EXPECT_EQ(exit_code_of(Code::corrupt), ExitCode::file);
  EXPECT_EQ(exit_code_of(Code::failed), ExitCode::failed);
  EXPECT_EQ(exit_code_of(Code::out_of_memory), ExitCode::failed);
  EXPECT_EQ(exit_code_of(Code::cancelled), ExitCode::interrupted);
}

}  // namespace
}  // namespace strata
