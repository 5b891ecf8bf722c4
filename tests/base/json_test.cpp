#include "base/json.h"

namespace strata {

TEST(Json, PrintsLikePythonKeepingKeyOrder) {
  const auto v = parse_json(R"({"b":[1,2.5,"é\n"],"a":{},"c":null,"d":true})", "input");
  ASSERT_TRUE(v.ok());
  EXPECT_EQ(dump_python_style(*v), R"({"b": [1, 2.5, "é\n"], "a": {}, "c": null, "d": true})");
}

TEST(Json, RefusesDeepNestingWithoutRecursing) {
  const std::string deep(100000, '[');
  const auto v = parse_json(deep, "request");
  ASSERT_FALSE(v.ok());
  EXPECT_NE(v.status().text().find("request: nested deeper than 100 levels"), std::string::npos);
}

TEST(Json, NamesTheByteOfASyntaxError) {
  EXPECT_NE(parse_json("{\"a\": }", "tools.json").status().text().find("tools.json: not valid JSON at byte 7"),
            std::string::npos);
}

TEST(Json, RefusesANumberThatOverflows) {
  const auto v = parse_json("[1, -2.5e1033]", "request");
  ASSERT_FALSE(v.ok());
  EXPECT_NE(v.status().text().find("request: a number is too large"), std::string::npos);
  EXPECT_TRUE(parse_json("[1e308, 1e-999, 123456789012345678901234567890]", "request").ok());
}

}  // namespace strata
