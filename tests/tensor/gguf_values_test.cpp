#include <cmath>
#include <limits>

#include "tensor/craft.h"
#include "tensor/gguf_writer.h"

namespace strata {
namespace {

// One key of every type.
std::string all_values() {
  GgufWriter writer;
  writer.set<uint8_t>("u8", 250);
  writer.set<int8_t>("i8", -8);
  writer.set<uint16_t>("u16", 65535);
  writer.set<int16_t>("i16", -300);
  writer.set<uint32_t>("u32", 4000000000U);
  writer.set<int32_t>("i32", -5);
  writer.set<float>("f32", 1.5F);
  writer.set<bool>("bool", true);
  writer.set_string("string", "h\xC3\xA9llo\n");
  writer.set<uint64_t>("u64", std::numeric_limits<uint64_t>::max());
  writer.set<int64_t>("i64", std::numeric_limits<int64_t>::min());
  writer.set<double>("f64", -0.25);
  writer.set<float>("nan", std::nanf(""));
  writer.set<double>("inf", INFINITY);
  writer.set_array<uint8_t>("u8s", {1, 255});
  writer.set_array<int32_t>("i32s", {3, -1});
  writer.set_array<uint32_t>("u32s", {3, 4000000000U});
  writer.set_array<uint64_t>("u64s", {1, std::numeric_limits<uint64_t>::max()});
  writer.set_array<int64_t>("i64s", {std::numeric_limits<int64_t>::min(), 7});
  writer.set_array<bool>("bools", {true, false, true});
  writer.set_array<float>("f32s", {0.5F, 2});
  writer.set_strings("strings", {"a", "", std::string("b\0c", 3)});
  writer.set_array<uint32_t>("none", {});
  writer.set_strings("no_strings", {});
  return writer.to_bytes().value();
}

class GgufValues : public testing::Test {
 protected:
  GgufValues() : bytes_(all_values()), file_(Gguf::parse({{"m.gguf", bytes_of(bytes_)}}).value()) {}
  std::string bytes_;
  Gguf file_;
};

TEST_F(GgufValues, IntegersOfEveryWidthAreRead) {
  EXPECT_EQ(file_.get_u64("u8").value(), 250U);
  EXPECT_EQ(file_.get_u64("u16").value(), 65535U);
  EXPECT_EQ(file_.get_u64("u32").value(), 4000000000U);
  EXPECT_EQ(file_.get_u64("u64").value(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(file_.get_int("i8", -10, 0).value(), -8);
  EXPECT_EQ(file_.get_int("i16", -300, -300).value(), -300);
  EXPECT_EQ(file_.get_int("i64", std::numeric_limits<int64_t>::min(), 0).value(), std::numeric_limits<int64_t>::min());
}

TEST_F(GgufValues, NumbersOutsideTheirRangeNameKeyValueAndRange) {
  EXPECT_EQ(file_.get_u64("i32").status().text(), "m.gguf: key 'i32' is -5, expected a non-negative integer");
  EXPECT_EQ(file_.get_int("u8", 1, 200).status().text(), "m.gguf: key 'u8' is 250, expected an integer from 1 to 200");
  EXPECT_EQ(file_.get_int("u8", 251, 300).status().code(), Code::out_of_range);
  EXPECT_EQ(file_.get_int("u64", -1, std::numeric_limits<int64_t>::max()).status().text(),
            "m.gguf: key 'u64' is 18446744073709551615, expected an integer from -1 to 9223372036854775807");
  EXPECT_EQ(file_.get_number("nan").status().text(), "m.gguf: key 'nan' is nan, expected a finite number");
  EXPECT_EQ(file_.get_number("inf").status().code(), Code::out_of_range);
}

TEST_F(GgufValues, NumbersMayBeStoredAsFloatsOrIntegers) {
  EXPECT_EQ(file_.get_number("f32").value(), 1.5);
  EXPECT_EQ(file_.get_number("f64").value(), -0.25);
  EXPECT_EQ(file_.get_number("i32").value(), -5.0);
  EXPECT_EQ(file_.get_number("u64").value(), 18446744073709551616.0);
}

TEST_F(GgufValues, BoolsAndStringsAreNothingElse) {
  EXPECT_TRUE(file_.get_bool("bool").value());
  EXPECT_EQ(file_.get_string("string").value(), "h\xC3\xA9llo\n");
  EXPECT_EQ(file_.get_bool("u8").status().text(), "m.gguf: key 'u8' is u8, expected bool");
  EXPECT_EQ(file_.get_string("f32").status().text(), "m.gguf: key 'f32' is f32, expected string");
  EXPECT_EQ(file_.get_u64("bool").status().text(), "m.gguf: key 'bool' is bool, expected a non-negative integer");
  EXPECT_EQ(file_.get_int("f64", 0, 9).status().text(), "m.gguf: key 'f64' is f64, expected an integer from 0 to 9");
  EXPECT_EQ(file_.get_number("string").status().text(), "m.gguf: key 'string' is string, expected a number");
}

TEST_F(GgufValues, AMissingKeyIsNotFoundByEveryGetter) {
  EXPECT_EQ(file_.find("absent"), nullptr);
  for (const Status& status :
       {file_.get_u64("absent").status(), file_.get_int("absent", 0, 1).status(), file_.get_number("absent").status(),
        file_.get_bool("absent").status(), file_.get_string("absent").status(), file_.get_u64_array("absent").status(),
        file_.get_int_array("absent").status(), file_.get_i32_array("absent").status(),
        file_.get_string_array("absent").status()}) {
    EXPECT_EQ(status.code(), Code::not_found);
    EXPECT_EQ(status.text().rfind("m.gguf: key 'absent' is missing, expected ", 0), 0U) << status.text();
  }
}

TEST_F(GgufValues, ArraysAreDecodedByElementType) {
  using U = std::vector<uint64_t>;
  using I = std::vector<int64_t>;
  EXPECT_EQ(file_.get_u64_array("u32s").value(), (U{3, 4000000000U}));
  EXPECT_EQ(file_.get_u64_array("u64s").value(), (U{1, std::numeric_limits<uint64_t>::max()}));
  EXPECT_EQ(file_.get_u64_array("bools").value(), (U{1, 0, 1}));
  EXPECT_EQ(file_.get_u64_array("none").value(), U{});
  EXPECT_EQ(file_.get_int_array("u8s").value(), (I{1, 255}));
  EXPECT_EQ(file_.get_int_array("i32s").value(), (I{3, -1}));
  EXPECT_EQ(file_.get_int_array("i64s").value(), (I{std::numeric_limits<int64_t>::min(), 7}));
  EXPECT_EQ(file_.get_int_array("bools").value(), (I{1, 0, 1}));
  EXPECT_EQ(file_.get_i32_array("i32s").value(), (std::vector<int32_t>{3, -1}));
  EXPECT_EQ(file_.get_string_array("strings").value(), (std::vector<std::string_view>{"a", "", {"b\0c", 3}}));
  EXPECT_EQ(file_.get_string_array("no_strings").value(), std::vector<std::string_view>{});
}

TEST_F(GgufValues, ArraysOfTheWrongTypeNameBothTypes) {
  EXPECT_EQ(file_.get_i32_array("u8s").status().text(),
            "m.gguf: key 'u8s' is an array of 2 u8, expected an array of i32");
  EXPECT_EQ(file_.get_i32_array("u32s").status().code(), Code::corrupt);
  EXPECT_EQ(file_.get_u64_array("u8s").status().text(),
            "m.gguf: key 'u8s' is an array of 2 u8, expected an array of u32, u64, or non-negative i32 or i64");
  EXPECT_EQ(file_.get_u64_array("i32s").status().text(),
            "m.gguf: element 1 of key 'i32s' is -1, expected a non-negative integer");
  EXPECT_EQ(file_.get_int_array("u64s").status().text(),
            "m.gguf: element 1 of key 'u64s' is 18446744073709551615, expected at most 9223372036854775807");
  EXPECT_EQ(file_.get_int_array("f32s").status().text(),
            "m.gguf: key 'f32s' is an array of 2 f32, expected an array of integers");
  EXPECT_EQ(file_.get_int_array("strings").status().code(), Code::corrupt);
  EXPECT_EQ(file_.get_string_array("u8s").status().text(),
            "m.gguf: key 'u8s' is an array of 2 u8, expected an array of string");
  EXPECT_EQ(file_.get_u64_array("u32").status().text(),
            "m.gguf: key 'u32' is u32, expected an array of u32, u64, or non-negative i32 or i64");
  EXPECT_EQ(file_.get_u64("u32s").status().text(),
            "m.gguf: key 'u32s' is an array of 2 u32, expected a non-negative integer");
}

TEST_F(GgufValues, AreShownToPeopleInOneLine) {
  const auto text = [&](const char* key, size_t n) { return file_.value_text(*file_.find(key), n); };
  EXPECT_EQ(text("u64", 40), "18446744073709551615");
  EXPECT_EQ(text("i64", 40), "-9223372036854775808");
  EXPECT_EQ(text("f32", 40), "1.5");
  EXPECT_EQ(text("bool", 40), "true");
  EXPECT_EQ(text("string", 40), "h\xC3\xA9llo\\n");
  EXPECT_EQ(text("bools", 40), "[true, false, true]");
  EXPECT_EQ(text("strings", 40), "[a, , b\\x00c]");
  EXPECT_EQ(text("none", 40), "[]");
  EXPECT_EQ(text("string", 6), "h\xC3\xA9l...") << "six characters, however many bytes";
  EXPECT_EQ(text("string", 7), "h\xC3\xA9llo\\n");
  EXPECT_EQ(text("bools", 10), "[true, ...");
  EXPECT_EQ(text("bools", 2), "..");
  EXPECT_EQ(text("bools", 0), "");
}

TEST(GgufNames, AreShownWithoutControlOverTheTerminal) {
  EXPECT_EQ(printable("a\x1b[31m\x7f\t", 99), "a\\x1b[31m\\x7f\\t");
  EXPECT_EQ(printable("\xC2\x9B"
                      "x",
                      99),
            "\\x9bx")
      << "the one-character form of escape [";
  EXPECT_EQ(printable("\xFF\xC3", 99), "\\xff\\xc3");
  EXPECT_EQ(printable("\xE4\xB8\xAD\xF0\x9F\x98\x80", 99), "\xE4\xB8\xAD\xF0\x9F\x98\x80");
}

TEST(GgufNames, MustBeUtf8) {
  for (const std::string good : {"a", "token_embd.weight", "\xC3\xA9", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(check_gguf_name(good).ok()) << good;
  }
  for (const std::string bad : {"\x80", "a\xC3", "\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF0\x80\x80\xAF",
                                "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE4\xB8", "\xF0\x9F\x98"}) {
    EXPECT_FALSE(check_gguf_name(bad).ok()) << printable(bad, 99);
  }
  EXPECT_EQ(check_gguf_name("ab\xFF").text(), "the name is not valid UTF-8 at its byte 2");
  EXPECT_TRUE(check_gguf_name(std::string(65535, 'k')).ok());
  EXPECT_EQ(check_gguf_name(std::string(65536, 'k')).text(), "the name has 65536 bytes, at most 65535 are allowed");
}

TEST(GgufTypes, HaveNamesAndWidths) {
  for (uint32_t i = 0; i < 13; ++i) EXPECT_STRNE(gguf_type_name(static_cast<GgufType>(i)), "unknown") << i;
  EXPECT_STREQ(gguf_type_name(static_cast<GgufType>(13)), "unknown");
  EXPECT_EQ(gguf_type_bytes(GgufType::f64), 8U);
  EXPECT_EQ(gguf_type_bytes(GgufType::boolean), 1U);
  EXPECT_EQ(gguf_type_bytes(GgufType::string), 0U);
  EXPECT_EQ(gguf_type_bytes(static_cast<GgufType>(99)), 0U);
}

}  // namespace
}  // namespace strata
