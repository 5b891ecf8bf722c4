#include <gtest/gtest.h>

#include <string>

#include "text/jinja_case.h"

namespace strata::jinja {
namespace {

std::string times(size_t n, const std::string& what) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += what;
  return out;
}

}  // namespace

TEST(JinjaLimits, DeepSourceFailsInsteadOfRecursing) {
  const size_t n = 20000;
  const std::string kDeep[] = {
      "{{ " + times(n, "(") + "1" + times(n, ")") + " }}",
      "{{ " + times(n, "[") + times(n, "]") + " }}",
      "{{ " + times(n, "{'a':") + "1" + times(n, "}") + " }}",
      "{{ " + times(n, "not ") + "1 }}",
      "{{ " + times(n, "-") + "1 }}",
      "{{ 1" + times(n, "+1") + " }}",
      "{{ 1" + times(n, "*1") + " }}",
      "{{ 2" + times(n, "**1") + " }}",
      "{{ a" + times(n, ".a") + " }}",
      "{{ a" + times(n, "[0]") + " }}",
      "{{ a" + times(n, "()") + " }}",
      "{{ a" + times(n, "|trim") + " }}",
      "{{ a" + times(n, " if a") + " }}",
      "{{ a" + times(n, " if a else a") + " }}",
      "{{ a" + times(n, " and a") + " }}",
      "{{ a" + times(n, " or a") + " }}",
      "{{ a" + times(n, " is none(a") + times(n, ")") + " }}",
      times(n, "{% if a %}") + times(n, "{% endif %}"),
      times(n, "{% for a in b %}") + times(n, "{% endfor %}"),
      times(n, "{% set a %}") + times(n, "{% endset %}"),
      times(n, "{% macro a() %}") + times(n, "{% endmacro %}"),
      "{% for " + times(n, "(") + "a" + times(n, ")") + " in b %}{% endfor %}",
      "{% set " + times(n, "a,(") + "b" + times(n, ")") + " = 1 %}",
  };
  for (const std::string& source : kDeep) {
    const auto parsed = parse_template(source, "chat template", {});
    ASSERT_FALSE(parsed.ok()) << source.substr(0, 40);
    EXPECT_NE(parsed.status().message().find(" levels"), std::string::npos) << parsed.status().message();
  }
}

TEST(JinjaLimits, WideSourceIsFine) {
  EXPECT_EQ(rendered("{{ ['a'" + times(2000, ", 'a'") + "] | length }}"), "2001");
  EXPECT_EQ(rendered("{{ 'a'" + times(2000, " ~ 'a'") + " }}"), times(2001, "a"));
  EXPECT_EQ(rendered("{% if 0 %}" + times(2000, "{% elif 0 %}a") + "{% else %}b{% endif %}"), "b");
  EXPECT_EQ(rendered(times(2000, "{% if 1 %}a{% endif %}")), times(2000, "a"));
}

TEST(JinjaLimits, RecursionOfMacrosAndValuesEnds) {
  const char* const kDeep[] = {
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(n) %}{% if n %}{% for x in [1] %}{% filter upper %}{{ f(n) ~ [f(n)] }}{% endfilter %}{% endfor %}{% "
      "endif %}{% endmacro %}{{ f(1) }}",
      "{% macro g() %}{{ f() }}{% endmacro %}{% macro f() %}{{ g() }}{% endmacro %}{{ f() }}",
      "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}",
      "{% set l = [] %}{% set _ = l.append(l) %}{{ l }}",
      "{% set l = [] %}{% set _ = l.append(l) %}{{ l | tojson }}",
      "{% set l = [] %}{% set _ = l.append(l) %}{% set k = [] %}{% set _ = k.append(k) %}{{ l == k }}",
      "{% set l = [] %}{% set _ = l.append(l) %}{% set k = [] %}{% set _ = k.append(k) %}{{ l < k }}",
      "{% set n = namespace(x=1) %}{% set n.x = n %}{{ n }}",
      "{% set n = namespace(x=[]) %}{% for i in range(5000) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x | tojson }}",
  };
  for (const char* source : kDeep) {
    const Outcome outcome = render_source(source);
    EXPECT_EQ(outcome.status.code(), Code::out_of_range) << source << "\n" << outcome.status.message();
    EXPECT_NE(outcome.status.message().find(" levels"), std::string::npos) << outcome.status.message();
  }
}

TEST(JinjaLimits, DeepRequestDataFails) {
  Json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = Json::array({std::move(deep)});
  EXPECT_EQ(rendered("{{ x }}", {{"x", deep}}), "error: chat template: data nested deeper than 400 levels");
}

TEST(JinjaLimits, HugeValuesFailBeforeTheyAreMade) {
  const char* const kHuge[] = {
      "{{ 'a' * 10**12 }}",
      "{{ [1] * 10**12 }}",
      "{{ [[]] * 10**18 }}",
      "{{ range(10**12) }}",
      "{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
      "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
      "{% set n = namespace(x=['aaaaaaaaaaaaaaaa']) %}{% for i in range(50) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ "
      "n.x }}",
      "{% set n = namespace(x=[1]) %}{% for i in range(50) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x | tojson }}",
      "{% set n = namespace(x='aa') %}{% for i in range(50) %}{% set n.x = n.x | replace('a', 'aa') %}{% endfor %}",
      "{% set n = namespace(x='aa') %}{% for i in range(50) %}{% set n.x = n.x | join('bbbb') %}{% endfor %}",
      "{{ '%9999s' % 1 * 10**9 }}",
      "{{ 'a' | indent(10**15, true) }}",
      "{% set l = [1] %}{% for x in l %}{% set _ = l.append(x) %}{% endfor %}",
  };
  Limits limits;
  limits.steps = 1'000'000;
  limits.value_bytes = 16 << 20;
  for (const char* source : kHuge) {
    const Outcome outcome = render_source(source, {}, limits);
    EXPECT_EQ(outcome.status.code(), Code::out_of_range) << source << "\n" << outcome.status.message();
  }
}

TEST(JinjaLimits, StepsOutputAndSourceAreBounded) {
  Limits limits;
  limits.steps = 100000;
  limits.output_bytes = 1000;
  limits.source_bytes = 200;
  EXPECT_EQ(rendered("{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}", {}, limits),
            "error: chat template line 1: more than 100000 steps of work");
  EXPECT_EQ(rendered("{% for a in range(101) %}0123456789{% endfor %}", {}, limits),
            "error: chat template line 1: the text would be longer than 1000 bytes");
  EXPECT_EQ(rendered("{% for a in range(101) %}{{ '0123456789' }}{% endfor %}", {}, limits),
            "error: chat template line 1: the text would be longer than 1000 bytes");
  EXPECT_EQ(rendered(std::string(201, 'a'), {}, limits), "error: chat template has 201 bytes, more than 200");
  EXPECT_EQ(rendered("{% for a in range(100) %}0123456789{% endfor %}", {}, limits).size(), 1000u);
}

TEST(JinjaLimits, LongTextsTakeLinearWork) {
  // Each would need 10^11 steps or more if a piece cost as much as the whole; the step limit would stop it.
  const std::string big(400000, 'a');
  EXPECT_EQ(rendered("{% set n = namespace(x='') %}{% for i in range(100000) %}{% set n.x = n.x ~ 'abcdefgh' %}{% "
                     "endfor %}{{ n.x | length }}"),
            "800000");
  EXPECT_EQ(rendered("{{ x.split('a') | length }}", {{"x", big}}), "400001");
  EXPECT_EQ(rendered("{{ x.rsplit('a') | length }}", {{"x", big}}), "400001");
  EXPECT_EQ(rendered("{{ x.replace('a', 'b').count('b') }}", {{"x", big}}), "400000");
  EXPECT_EQ(rendered("{{ x.find(y) }}", {{"x", big}, {"y", std::string(200000, 'a') + "b"}}), "-1");
  EXPECT_EQ(rendered("{{ y in x }}", {{"x", big}, {"y", std::string(200000, 'a') + "b"}}), "False");
  EXPECT_EQ(rendered("{{ x.rfind(y) }}", {{"x", big}, {"y", "b" + std::string(200000, 'a')}}), "-1");
}

TEST(JinjaLimits, LongMessagesAreCut) {
  const std::string message =
      render_source("{{ x[y].z }}", {{"x", Json::object()}, {"y", std::string(1000000, 'k')}}).status.message();
  EXPECT_LT(message.size(), 2100u);
  EXPECT_NE(message.find("has no attribute 'kkkk"), std::string::npos);
}

TEST(JinjaLimits, SourceMustBeUtf8) {
  EXPECT_EQ(rendered("a\xFF"), "error: chat template is not UTF-8");
}

}  // namespace strata::jinja
