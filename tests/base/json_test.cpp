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
  EXPECT_NE(parse_json("{\"a\": }", "tools.json").status().text().find("tools.json: not valid JSON at byte 7"), std::string::npos);
}

}  // namespace strata
