#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tensor/gguf.h"
#include "text/jinja_case.h"

namespace strata::jinja {
namespace {

const std::string kFolder = STRATA_SOURCE_DIR "/tests/data/templates/";

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<Json> lines_of_json(std::istream& in) {
  std::vector<Json> out;
  for (std::string line; std::getline(in, line);) out.push_back(Json::parse(line));
  return out;
}

const std::vector<Json>& cases() {
  static const std::vector<Json> all = [] {
    std::ifstream in(kFolder + "cases.jsonl");
    return lines_of_json(in);
  }();
  return all;
}

std::string source_of(const Json& one) {
  if (one.contains("template")) return one["template"].get<std::string>();
  const std::string path = kFolder + one["file"].get<std::string>();
  if (!path.ends_with(".gguf")) return read_text(path);
  return std::string(Gguf::open(path).value().get_string("tokenizer.chat_template").value());
}

// Templates of the group give the text that jinja2 gives, and fail where it fails.
void check_group(const std::string& group) {
  int n = 0;
  for (const Json& one : cases()) {
    if (one["group"] != group) continue;
    ++n;
    SCOPED_TRACE(one.dump());
    const Outcome outcome = render_source(source_of(one), one.value("inputs", Json::object()));
    if (one.contains("error"))
      EXPECT_FALSE(outcome.status.ok()) << "gave " << outcome.text.bytes();
    else
      EXPECT_EQ(outcome.status.ok() ? std::string(outcome.text.bytes()) : outcome.status.text(),
                one["text"].get<std::string>());
  }
  EXPECT_GT(n, 10);
}

}  // namespace

TEST(JinjaLexer, CutsTextAndWhiteSpaceLikeJinja2) {
  check_group("lexer");
}
TEST(JinjaParser, ReadsTheGrammarOfJinja2) {
  check_group("parser");
}
TEST(JinjaOperators, CalculateAndSliceLikePython) {
  check_group("operators");
}
TEST(JinjaCompare, EqualsOrdersAndContainsLikePython) {
  check_group("compare");
}
TEST(JinjaPrint, WritesValuesAndJsonLikePython) {
  check_group("print");
}
TEST(JinjaInterpreter, RunsLoopsScopesAndMacrosLikeJinja2) {
  check_group("statements");
}
TEST(JinjaBuiltins, FindsAttributesItemsAndGlobalsLikeJinja2) {
  check_group("builtins");
}
TEST(JinjaFilters, ChangeTextAndNumbersLikeJinja2) {
  check_group("filters");
}
TEST(JinjaSequenceFilters, MapSelectAndSortLikeJinja2) {
  check_group("sequence_filters");
}
TEST(JinjaPredicates, TestValuesLikeJinja2) {
  check_group("predicates");
}
TEST(JinjaMethods, DoWhatTheyDoInPython) {
  check_group("methods");
}
TEST(Jinja, RendersWholeChatTemplatesLikeJinja2) {
  check_group("templates");
}
TEST(Jinja, RendersTheBundledModelsTemplateLikeJinja2) {
  check_group("bundled");
}

TEST(Jinja, StoredOutcomesAreThoseOfTheInstalledJinja2) {
  const std::string script = STRATA_SOURCE_DIR "/tests/text/jinja_oracle.py";
  // The distribution's interpreter has the distribution's packages; another one may come first in the path.
  const std::string command =
      "for p in /usr/bin/python3 python3; do $p -c 'import jinja2' 2>/dev/null && exec $p -W ignore '" + script +
      "' '" + kFolder + "cases.jsonl'; done; exit 77";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, n);
  const int status = pclose(pipe);
  if (status == 77 << 8) GTEST_SKIP() << "python3-jinja2 is not installed";
  ASSERT_EQ(status, 0);
  std::istringstream in(output);
  const std::vector<Json> outcomes = lines_of_json(in);
  ASSERT_EQ(outcomes.size(), cases().size());
  for (size_t i = 0; i < outcomes.size(); ++i) {
    SCOPED_TRACE(cases()[i].dump());
    // What an error says differs between versions.
    EXPECT_EQ(outcomes[i].contains("error"), cases()[i].contains("error"));
    EXPECT_EQ(outcomes[i].value("text", ""), cases()[i].value("text", ""));
  }
}

TEST(Jinja, ErrorsNameTheLineAndTheCause) {
  const std::pair<const char*, const char*> kCases[] = {
      {"a\n\n{{ foo.bar }}", "chat template line 3: 'foo' is undefined"},
      {"{% for x in [1] %}\n{{ x.y.z }}{% endfor %}", "chat template line 2: 'int object' has no attribute 'y'"},
      {"\n{% if x %}\n", "chat template line 2: the template ends where 'endif' was expected"},
      {"{{ 1 +\n\n }}", "chat template line 3: expected a value, found '}}'"},
      {"\n\n{{ 'a' ?", "chat template line 3: unexpected character '?'"},
      {"{#\n\n", "chat template line 1: a comment is not closed with '#}'"},
      {"\n{% include 'x' %}", "chat template line 2: the tag 'include' is not supported in chat templates"},
      {"{{ 1 | nope }}", "chat template line 1: No filter named 'nope'."},
      {"{{ 99999999999999999999 }}", "chat template line 1: the number 99999999999999999999 does not fit in 64 bits"},
      {"{{ 9223372036854775807 + 1 }}", "chat template line 1: integer overflow"},
      {"{{ raise_exception('say ' ~ 'why') }}", "say why"},
      {"{{ raise_exception('') }}", "chat template refuses this conversation"},
      {"{% macro m() %}\n{{ 1 / 0 }}{% endmacro %}\n{{ m() }}", "chat template line 2: division by zero"},
  };
  for (const auto& [source, message] : kCases) EXPECT_EQ(rendered(source), std::string("error: ") + message) << source;
}

TEST(Jinja, OnlyRaiseExceptionCountsAsRefusal) {
  EXPECT_TRUE(render_source("{{ raise_exception('no') }}").refused);
  EXPECT_EQ(render_source("{{ raise_exception('no') }}").status.code(), Code::invalid_argument);
  EXPECT_FALSE(render_source("{{ x.y }}").refused);
  EXPECT_EQ(render_source("{{ x.y }}").status.code(), Code::failed);
}

TEST(Jinja, KeepsNumbersOfARequestExactly) {
  const Json inputs = Json::parse(
      R"({"a": 18446744073709551615, "b": -9223372036854775808, "c": 1.0, "d": 1e-5, "e": 12345678901234567})");
  EXPECT_EQ(rendered("{{ [a, b, c, d, e] | tojson }}", inputs),
            "[18446744073709551615, -9223372036854775808, 1.0, 1e-05, 12345678901234567]");
  EXPECT_EQ(
      rendered("{{ a == a }} {{ a > b }} {{ a is number }} {{ a > 1e30 }} {{ a == 18446744073709551615.0 }}", inputs),
      "True True True False False");
  EXPECT_EQ(rendered("{{ a + 1 }}", inputs), "error: chat template line 1: integer overflow");
}

TEST(Jinja, ListsAreSharedWhenAppendedTo) {
  EXPECT_EQ(rendered("{% set a = [1] %}{% set b = a %}{{ a.append(2) }}{{ b }}"), "None[1, 2]");
  EXPECT_EQ(
      rendered("{% set l = [] %}{% for x in [1,2] %}{% set _ = l.append(x * 2) %}{% endfor %}{{ l | join(',') }}"),
      "2,4");
  EXPECT_EQ(
      rendered("{% set a = 'x' ~ 'y' %}{% set b = a ~ 'z' %}{% set c = a ~ 'w' %}{{ a }}{{ b }}{{ c }}{{ b ~ b }}"),
      "xyxyzxywxyzxyz");
}

TEST(Jinja, TrainingMarksAreTransparent) {
  EXPECT_EQ(rendered("{% generation %}a{{ 1 }}{% endgeneration %}b"), "a1b");
}

}  // namespace strata::jinja
