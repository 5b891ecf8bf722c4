#include "tensor/gguf.h"

#include <filesystem>
#include <limits>

#include "temp_dir.h"
#include "tensor/craft.h"
#include "tensor/gguf_writer.h"

namespace strata {
namespace {

constexpr uint64_t kHuge = uint64_t{1} << 60;
constexpr uint32_t kTypeF32 = 0, kTypeQ6K = 14;

// The file is refused with exactly this message (without the hint) after its name.
void expect_refused(const std::string& bytes, const std::string& message, Code code = Code::corrupt) {
  const Status status = parse_status(bytes);
  EXPECT_EQ(status.message(), "m.gguf: " + message);
  EXPECT_STREQ(code_name(status.code()), code_name(code));
  EXPECT_FALSE(status.hint().empty());
}

std::string hint_of(const std::string& bytes) {
  return parse_status(bytes).hint();
}

// Two tensors, keys of many types; every byte of it is used.
std::string small_file() {
  Craft craft;
  craft.key("general.architecture", kString, str("qwen4exp"));
  craft.key("general.alignment", kU32, le<uint32_t>(32));
  craft.key("flag", kBool, le<uint8_t>(1));
  craft.array("flags", kBool, 2, std::string("\0\1", 2));
  craft.array("words", kString, 3, str("one") + str("") + str("three"));
  craft.array("numbers", kI32, 2, le<int32_t>(-1) + le<int32_t>(1));
  craft.tensor("a.weight", {8, 2}, kTypeF32, 0).tensor("b.weight", {8}, kTypeF32, 64);
  return craft.content(96).bytes();
}

TEST(GgufHeader, ASmallFileOpens) {
  const std::string bytes = small_file();
  const auto file = Gguf::parse({{"dir/m.gguf", bytes_of(bytes)}});
  ASSERT_TRUE(file.ok()) << file.status().text();
  EXPECT_EQ(file->keys(), (std::vector<std::string_view>{"general.architecture", "general.alignment", "flag", "flags",
                                                         "words", "numbers"}));
  ASSERT_EQ(file->tensors().size(), 2U);
  const GgufTensor& b = file->tensors()[1];
  EXPECT_EQ(b.name, "b.weight");
  EXPECT_EQ(b.shape, Shape::of({8}));
  EXPECT_EQ(b.bytes, 32U);
  EXPECT_EQ(b.file_offset, bytes.size() - 32);
  EXPECT_EQ(b.data, bytes_of(bytes).data() + b.file_offset);
  EXPECT_EQ(file->find_tensor("b.weight"), &b);
  EXPECT_EQ(file->find_tensor("c.weight"), nullptr);
  EXPECT_EQ(file->file_name(), "m.gguf");
  EXPECT_EQ(file->file_bytes(), bytes.size());
}

TEST(GgufHeader, WhatIsNotGgufIsNamedForWhatItSeemsToBe) {
  expect_refused("hello\nworld, this is text",
                 "not a GGUF file: begins with \"hello\\nworld, this is...\", expected \"GGUF\"");
  expect_refused("GG", "too small for a GGUF file: 2 bytes, the header alone has 24");
  expect_refused(Craft().bytes().substr(0, 23), "too small for a GGUF file: 23 bytes, the header alone has 24");
  EXPECT_NE(hint_of("version https://git-lfs.github.com/spec/v1\noid sha256:1").find("Git LFS pointer"),
            std::string::npos);
  EXPECT_NE(hint_of("<!DOCTYPE html><html>").find("web page"), std::string::npos);
  EXPECT_NE(hint_of("tjgg" + std::string(100, 'x')).find("older than GGUF"), std::string::npos);
}

TEST(GgufHeader, OnlyVersionThreeInLittleEndianIsRead) {
  Craft craft;
  for (const uint32_t version : {0U, 1U, 2U, 4U, 0xFFFFFFFFU}) {
    craft.version = version;
    expect_refused(craft.bytes(), "GGUF version " + std::to_string(version) + ", expected 3", Code::unsupported);
  }
  craft.version = 3U << 24;
  expect_refused(craft.bytes(), "the file is big-endian, expected little-endian", Code::unsupported);
}

TEST(GgufHeader, CountsBeyondTheFileAreRefusedAtOnce) {
  Craft craft;
  craft.key("k", kU8, le<uint8_t>(1));
  craft.n_keys = kHuge;
  expect_refused(craft.bytes(), "the header counts 1152921504606846976 keys, but the 40 bytes left hold at most 2");
  craft.n_keys = 1;
  craft.n_tensors = std::numeric_limits<uint64_t>::max();
  expect_refused(craft.bytes(), "the header counts 18446744073709551615 tensors, but the 26 bytes left hold at most 0");
  craft.n_tensors = 0;
  craft.n_keys = 2;
  EXPECT_FALSE(parse_status(craft.bytes()).ok()) << "padding read as a key";
}

TEST(GgufKeys, AnEmptyKeyIn37BytesIsAnError) {
  const std::string bytes = Craft().key("", kU8, le<uint8_t>(0)).bytes(1);
  ASSERT_EQ(bytes.size(), 37U);
  EXPECT_FALSE(parse_status(bytes).ok());
  expect_refused(Craft().key("", kU64, le<uint64_t>(0)).bytes(), "key 1 of 1 at byte 32: the name is empty");
}

TEST(GgufKeys, NamesMustBeUtf8AndShortAndUnique) {
  expect_refused(Craft().key("ab\xFF", kU8, le<uint8_t>(0)).bytes(),
                 "key 1 of 1 at byte 32: the name is not valid UTF-8 at its byte 2");
  expect_refused(Craft().key(std::string(70000, 'k'), kU8, le<uint8_t>(0)).bytes(),
                 "key 1 of 1 at byte 32: the name has 70000 bytes, at most 65535 are allowed");
  expect_refused(Craft().key("k", kU8, le<uint8_t>(0)).key("k", kI8, le<uint8_t>(0)).bytes(), "key 'k' occurs twice");
  Craft craft;
  craft.keys = le(kHuge) + "k";
  craft.n_keys = 1;
  expect_refused(craft.bytes(),
                 "the file ends inside the name of key 1 of 1: 1152921504606846976 bytes expected at byte 32, 32 left");
}

TEST(GgufKeys, ControlCharactersOfAKeyDoNotReachTheTerminal) {
  expect_refused(Craft().key("a\x1b[2J", 13, "").bytes(), "key 'a\\x1b[2J' has the value type 13, known are 0 to 12");
}

TEST(GgufKeys, UnknownAndNestedTypesAreRefused) {
  expect_refused(Craft().key("k", 0xFFFFFFFF, "").bytes(), "key 'k' has the value type 4294967295, known are 0 to 12");
  expect_refused(Craft().array("k", 13, 1, "x").bytes(), "key 'k' is an array of the value type 13, known are 0 to 12");
  expect_refused(Craft().array("k", kArray, 1, le<uint32_t>(kU8) + le<uint64_t>(1) + "x").bytes(),
                 "key 'k' is an array of arrays, expected an array of numbers, bools or strings", Code::unsupported);
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += le<uint32_t>(kArray) + le<uint64_t>(1);
  EXPECT_EQ(parse_status(Craft().key("k", kArray, deep).bytes()).code(), Code::unsupported);
}

TEST(GgufKeys, LengthsBeyondTheFileAreRefusedAtOnce) {
  expect_refused(Craft().key("k", kString, le(kHuge)).bytes(1),
                 "the file ends inside the string of key 'k': 1152921504606846976 bytes expected at byte 45, 0 left");
  for (uint32_t type = kU8; type <= kF64; ++type) {
    if (type == kArray) continue;
    for (const uint64_t count : {kHuge, std::numeric_limits<uint64_t>::max(), uint64_t{1} << 33, uint64_t{17}}) {
      const Status status = parse_status(Craft().array("k", type, count, std::string(16, '\0')).bytes(1));
      const std::string name = gguf_type_name(static_cast<GgufType>(type));
      EXPECT_EQ(status.message().rfind("m.gguf: key 'k' is " + std::to_string(count) + " " + name + " values long", 0),
                0U)
          << status.text();
    }
  }
  expect_refused(Craft().array("k", kString, 2, str("ab") + le(kHuge) + "ab").bytes(1),
                 "the file ends inside string 1 of key 'k': 1152921504606846976 bytes expected at byte 67, 2 left");
}

TEST(GgufKeys, BoolsAreZeroOrOne) {
  expect_refused(Craft().key("k", kBool, le<uint8_t>(2)).bytes(), "key 'k' has the bool value 2, expected 0 or 1");
  expect_refused(Craft().array("k", kBool, 3, std::string("\0\1\xFF", 3)).bytes(),
                 "key 'k' has the bool value 255 at element 2, expected 0 or 1");
}

TEST(GgufKeys, AVocabularyOfAQuarterMillionTokensOpens) {
  Craft craft;
  std::string tokens, merges;
  for (int i = 0; i < 250000; ++i) {
    tokens += str("token" + std::to_string(i));
    merges += str("tok en" + std::to_string(i));
  }
  craft.array("tokenizer.ggml.tokens", kString, 250000, tokens).array("tokenizer.ggml.merges", kString, 250000, merges);
  const std::string bytes = craft.bytes();
  const auto file = Gguf::parse({{"m.gguf", bytes_of(bytes)}});
  ASSERT_TRUE(file.ok()) << file.status().text();
  EXPECT_EQ(file->get_string_array("tokenizer.ggml.tokens")->at(249999), "token249999");
  EXPECT_EQ(file->get_string_array("tokenizer.ggml.merges")->back(), "tok en249999");
}

TEST(GgufAlignment, IsAPowerOfTwoInASaneRange) {
  for (const uint32_t good : {8U, 64U, 4096U, 1U << 20}) {
    Craft craft;
    craft.key("general.alignment", kU32, le(good)).tensor("t", {8}, kTypeF32, good);
    EXPECT_TRUE(parse_status(craft.content(good + 32).bytes(good)).ok()) << good;
  }
  const std::string expected = ", expected a power of two from 8 to 1048576";
  for (const uint32_t bad : {0U, 1U, 4U, 33U, 48U, 1U << 21, 1U << 31}) {
    expect_refused(Craft().key("general.alignment", kU32, le(bad)).bytes(),
                   "key 'general.alignment' is " + std::to_string(bad) + expected);
  }
  expect_refused(Craft().key("general.alignment", kString, str("32")).bytes(),
                 "key 'general.alignment' is string" + expected);
  expect_refused(Craft().key("general.alignment", kI32, le(-32)).bytes(), "key 'general.alignment' is i32" + expected);
  expect_refused(Craft().key("general.alignment", kF32, le(32.0F)).bytes(),
                 "key 'general.alignment' is f32" + expected);
  expect_refused(Craft().array("general.alignment", kU32, 1, le<uint32_t>(32)).bytes(),
                 "key 'general.alignment' is an array of u32" + expected);
}

TEST(GgufTensors, AZeroDimensionIn96BytesIsAnError) {
  std::string bytes = Craft().tensor("t", {4, 0}, kTypeF32, 0).bytes();
  bytes.resize(96);
  expect_refused(bytes, "tensor 't': dimension 1 is 0, expected at least 1");
  expect_refused(Craft().tensor("t", {0}, kTypeQ6K, 0).bytes(), "tensor 't': dimension 0 is 0, expected at least 1");
  expect_refused(Craft().tensor("t", {0, 0, 0, 0}, kTypeF32, 0).bytes(),
                 "tensor 't': dimension 0 is 0, expected at least 1");
}

TEST(GgufTensors, ShapesMustBeCountableAndWholeBlocks) {
  expect_refused(Craft().tensor("t", {}, kTypeF32, 0).content(32).bytes(),
                 "tensor 't' has 0 dimensions, expected 1 to 4");
  expect_refused(Craft().tensor("t", {1, 1, 1, 1, 1}, kTypeF32, 0).bytes(),
                 "tensor 't' has 5 dimensions, expected 1 to 4");
  Craft craft = Craft().tensor("t", {1}, kTypeF32, 0);
  craft.tensors.replace(9, 4, le<uint32_t>(0xFFFFFFFF));
  expect_refused(craft.bytes(), "tensor 't' has 4294967295 dimensions, expected 1 to 4");
  expect_refused(Craft().tensor("t", {uint64_t{1} << 63}, kTypeF32, 0).bytes(),
                 "tensor 't': dimension 0 is 9223372036854775808, expected at most 9223372036854775807");
  expect_refused(Craft().tensor("t", {(uint64_t{1} << 42) + 1}, kTypeF32, 0).content(32).bytes(),
                 "tensor 't' (F32, 4398046511105) needs bytes 64 to 17592186044484 of the file, which has 96");
  expect_refused(Craft().tensor("t", {uint64_t{1} << 32, uint64_t{1} << 32}, kTypeF32, 0).bytes(),
                 "tensor 't': the shape 4294967296 x 4294967296 has more bytes than 63 bits can count");
  expect_refused(Craft().tensor("t", {1 << 16, 1 << 16, 1 << 16, 1 << 16}, kTypeF32, 0).bytes(),
                 "tensor 't': the shape 65536 x 65536 x 65536 x 65536 has more bytes than 63 bits can count");
  expect_refused(Craft().tensor("t", {250, 2}, kTypeQ6K, 0).content(999).bytes(),
                 "tensor 't': rows of 250 values are not a whole number of Q6_K blocks of 256 values");
}

TEST(GgufTensors, AnUnknownTypeIsNamedByItsId) {
  for (const uint32_t id : {4U, 5U, 31U, 41U, 43U, 0xFFFFFFFFU}) {
    expect_refused(Craft().tensor("blk.weight", {32}, id, 0).content(128).bytes(),
                   "tensor 'blk.weight' has the type id " + std::to_string(id) + ", which this build does not know",
                   Code::unsupported);
  }
}

TEST(GgufTensors, NamesFollowTheRulesOfKeys) {
  expect_refused(Craft().tensor("", {8}, kTypeF32, 0).content(32).bytes(),
                 "tensor 1 of 1 at byte 32: the name is empty");
  expect_refused(Craft().tensor("\xC3", {8}, kTypeF32, 0).content(32).bytes(),
                 "tensor 1 of 1 at byte 32: the name is not valid UTF-8 at its byte 0");
  expect_refused(Craft().tensor("t", {8}, kTypeF32, 0).tensor("t", {8}, kTypeF32, 32).content(64).bytes(),
                 "tensor 't' occurs twice");
}

TEST(GgufTensors, LieInsideTheFileAlignedAndApart) {
  expect_refused(Craft().tensor("t", {8}, kTypeF32, 16).content(64).bytes(),
                 "tensor 't' lies at offset 16, expected a multiple of 32");
  expect_refused(Craft().tensor("t", {8}, kTypeF32, 64).content(64).bytes(),
                 "tensor 't' (F32, 8) needs bytes 128 to 160 of the file, which has 128");
  expect_refused(
      Craft().tensor("t", {8}, kTypeF32, ~uint64_t{31}).content(64).bytes(),
      "tensor 't' (F32, 8) needs bytes 18446744073709551615 to 18446744073709551615 of the file, which has 128");
  expect_refused(Craft().tensor("t", {8}, kTypeF32, 0).bytes(),
                 "tensor 't' (F32, 8) needs bytes 64 to 96 of the file, which has 64");
  expect_refused(Craft().tensor("a", {16}, kTypeF32, 0).tensor("b", {8}, kTypeF32, 32).content(64).bytes(),
                 "tensor 'a' (F32, 16) ends at byte 160, but tensor 'b' begins at 128");
  expect_refused(Craft().tensor("a", {8}, kTypeF32, 32).tensor("b", {8}, kTypeF32, 32).content(64).bytes(),
                 "tensor 'a' (F32, 8) ends at byte 160, but tensor 'b' begins at 128");
  EXPECT_TRUE(
      parse_status(Craft().tensor("a", {8}, kTypeF32, 64).tensor("b", {8}, kTypeF32, 0).content(96).bytes()).ok())
      << "any order, with a gap";
}

TEST(GgufTensors, TheForeignFormatUnderTheIdOfQ2IsHintedAt) {
  // 128 values in 34 bytes there, in 36 here.
  const std::string bytes = Craft().tensor("a", {128, 16}, 42, 0).tensor("b", {128, 16}, 42, 544).content(1088).bytes();
  EXPECT_NE(hint_of(bytes).find("blocks of 128 values"), std::string::npos) << parse_status(bytes).text();
}

TEST(GgufDamage, AFileCutAnywhereIsAnError) {
  const std::string bytes = small_file();
  ASSERT_TRUE(parse_status(bytes).ok());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const Status status = parse_status(std::string_view(bytes).substr(0, size));
    ASSERT_FALSE(status.ok()) << size;
    ASSERT_EQ(status.message().rfind("m.gguf: ", 0), 0U) << status.text();
  }
}

TEST(GgufDamage, AFileCutInItsDataNamesTheTensorAndBothSizes) {
  const std::string bytes = small_file();
  const Status status = parse_status(std::string_view(bytes).substr(0, bytes.size() - 1));
  const std::string n = std::to_string(bytes.size());
  EXPECT_EQ(status.text(), "m.gguf: tensor 'b.weight' (F32, 8) needs bytes " + std::to_string(bytes.size() - 32) +
                               " to " + n + " of the file, which has " + std::to_string(bytes.size() - 1) +
                               "; the file is incomplete (" + n + " bytes expected): download it again");
}

TEST(GgufDamage, NoChangedByteIsEverMoreThanAnError) {
  const std::string bytes = small_file();
  size_t refused = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int mask : {0x01, 0x02, 0x10, 0x80, 0xFF}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ mask);
      refused += !parse_status(changed).ok();
    }
  }
  EXPECT_GT(refused, bytes.size());
}

TEST(GgufDamage, FilesJoinedWithCatAreNoticed) {
  const std::string a = small_file(), no_tensors = Craft().key("k", kU8, le<uint8_t>(1)).bytes();
  for (const std::string& first : {a, no_tensors}) {
    expect_refused(first + a,
                   "a second GGUF file begins at byte " + std::to_string(first.size()) + ": files were joined");
  }
  const std::string unpadded = Craft().key("k", kU8, le<uint8_t>(1)).bytes(1);
  expect_refused(unpadded + a,
                 "a second GGUF file begins at byte " + std::to_string(unpadded.size()) + ": files were joined");
  EXPECT_TRUE(parse_status(a + std::string(100, 'x')).ok()) << "what follows the data otherwise is nobody's business";
}

TEST(GgufFiles, TheBundledModelOpens) {
  const std::string path = STRATA_SOURCE_DIR "/models/flash-next-nano-IQ3_XXS.gguf";
  const auto file = Gguf::open(path);
  ASSERT_TRUE(file.ok()) << file.status().text();
  EXPECT_EQ(file->tensors().size(), 315U);
  EXPECT_EQ(file->keys().size(), 59U);
  EXPECT_EQ(file->get_string("general.architecture").value(), "qwen4exp");
  EXPECT_EQ(file->get_string_array("tokenizer.ggml.tokens").value().size(), 8192U);
  EXPECT_EQ(file->file_bytes(), 51852736U);
  EXPECT_EQ(file->shard(0).path(), path);
  EXPECT_EQ(file->find_tensor("per_layer_token_embd.weight")->type, DType::IQ4_NL);
  EXPECT_TRUE(file->unchanged().ok());
  touch_everything(*file);
}

TEST(GgufFiles, AMissingFileIsNamedAsTyped) {
  EXPECT_EQ(Gguf::open("no/such.gguf").status().code(), Code::not_found);
  EXPECT_NE(Gguf::open("no/such.gguf").status().text().find("no/such.gguf: no such file"), std::string::npos);
}

TEST(GgufFiles, AModelReplacedWhileInUseIsNoticed) {
  const TempDir dir;
  const std::string path = dir.put("m.gguf", small_file());
  const auto file = Gguf::open(path);
  ASSERT_TRUE(file.ok()) << file.status().text();
  EXPECT_TRUE(file->unchanged().ok());
  std::string other = small_file();
  other.back() = 'x';
  dir.put("new", other);
  std::filesystem::rename(dir.path("new"), path);
  EXPECT_NE(file->unchanged().text().find(path + ": the file was replaced"), std::string::npos);
  touch_everything(*file);
}

}  // namespace
}  // namespace strata
