#include <filesystem>

#include "temp_dir.h"
#include "tensor/craft.h"
#include "tensor/gguf_writer.h"

namespace strata {
namespace {

constexpr const char* kTable = "per_layer_token_embd.weight";

// A model of three tensors with distinct contents, each in the shard that is given for it.
struct Model {
  std::vector<std::string> contents;
  GgufWriter writer;

  Model(const std::string& name, int embedding, int output, int table) {
    for (const char c : {'e', 'o', 't'}) contents.emplace_back(18 * 8, c);
    writer.set_string("general.architecture", "qwen4exp");
    writer.set_string("general.name", name);
    writer.set<uint32_t>("qwen4exp.block_count", 12);
    add("token_embd.weight", 0, embedding);
    add("output.weight", 1, output);
    add(kTable, 2, table);
  }
  void add(const char* name, size_t i, int shard) {
    writer.add_tensor(name, DType::IQ4_NL, Shape::of({32, 8}), bytes_of(contents[i]), shard);
  }
  std::vector<std::string> shards(int n) const { return writer.shards_to_bytes(n).value(); }
};

Result<Gguf> parse(const std::vector<std::string>& shards) {
  std::vector<GgufBytes> list;
  for (size_t i = 0; i < shards.size(); ++i) list.push_back({"shard" + std::to_string(i + 1), bytes_of(shards[i])});
  return Gguf::parse(std::move(list));
}

std::string failure(const std::vector<std::string>& shards) {
  const auto file = parse(shards);
  return file.ok() ? "opened" : file.status().message();
}

std::string split_keys(uint16_t no, uint16_t count, int32_t tensors) {
  Craft craft;
  craft.key("split.no", kU16, le(no)).key("split.count", kU16, le(count)).key("split.tensors.count", kI32, le(tensors));
  return craft.keys;
}

char first_byte(const Gguf& file, const char* tensor) {
  return static_cast<char>(file.find_tensor(tensor)->data[0]);
}

TEST(GgufShards, AnyShardOpensAll) {
  const TempDir dir;
  const Model model("m", 0, 1, 2);
  const auto paths = model.writer.write_shards(dir.path("m"), 3);
  ASSERT_TRUE(paths.ok()) << paths.status().text();
  EXPECT_EQ(paths->at(2), dir.path("m-00003-of-00003.gguf"));
  for (const std::string& path : *paths) {
    const auto file = Gguf::open(path);
    ASSERT_TRUE(file.ok()) << file.status().text();
    EXPECT_EQ(file->n_shards(), 3);
    EXPECT_EQ(file->tensors().size(), 3U);
    EXPECT_EQ(file->get_u64("qwen4exp.block_count").value(), 12U);
    EXPECT_EQ(file->find_tensor("output.weight")->shard, 1);
    EXPECT_EQ(first_byte(*file, "token_embd.weight"), 'e');
    EXPECT_EQ(first_byte(*file, "output.weight"), 'o');
    EXPECT_EQ(first_byte(*file, kTable), 't');
    EXPECT_EQ(file->file_name(), "m-00001-of-00003.gguf");
    EXPECT_EQ(file->shard(2).path(), paths->at(2));
    EXPECT_TRUE(file->unchanged().ok());
  }
}

TEST(GgufShards, TheTableMayLieInAnyShardAndAShardMayHaveNoTensors) {
  for (int others = 0; others < 3; ++others) {
    for (int table = 0; table < 3; ++table) {
      const auto shards = Model("m", others, others, table).shards(3);
      const auto file = parse(shards);
      ASSERT_TRUE(file.ok()) << file.status().text();
      EXPECT_EQ(file->find_tensor(kTable)->shard, table);
      EXPECT_EQ(first_byte(*file, kTable), 't');
      EXPECT_EQ(first_byte(*file, "output.weight"), 'o');
      touch_everything(*file);
    }
  }
}

TEST(GgufShards, ABareTableShardHasAHeaderOf192Bytes) {
  const auto shards = Model("m", 0, 0, 1).shards(2);
  EXPECT_EQ(shards[1].size(), 192U + 18 * 8 + 16);
  const auto file = parse(shards);
  ASSERT_TRUE(file.ok()) << file.status().text();
  EXPECT_EQ(file->find_tensor(kTable)->file_offset, 192U);
  EXPECT_EQ(file->get_string("general.architecture").value(), "qwen4exp");
}

TEST(GgufShards, AMissingShardIsNamed) {
  const TempDir dir;
  const auto paths = Model("m", 0, 1, 2).writer.write_shards(dir.path("m"), 3).value();
  std::filesystem::remove(paths[1]);
  const Status status = Gguf::open(paths[2]).status();
  EXPECT_EQ(status.code(), Code::not_found);
  EXPECT_EQ(status.text(), paths[2] + ": shard 2 of 3 is missing: " + paths[1] + "; keep all shards in one directory");
  EXPECT_EQ(Gguf::open(paths[1]).status().message(), paths[1] + ": no such file");
}

TEST(GgufShards, SwappedShardsAreNoticed) {
  const TempDir dir;
  const auto paths = Model("m", 0, 1, 1).writer.write_shards(dir.path("m"), 2).value();
  std::filesystem::rename(paths[0], dir.path("x"));
  std::filesystem::rename(paths[1], paths[0]);
  std::filesystem::rename(dir.path("x"), paths[1]);
  EXPECT_EQ(Gguf::open(paths[0]).status().message(),
            paths[0] + ": key 'split.no' is 1, so this is shard 2, but the name says shard 1");
}

TEST(GgufShards, ShardsOfTwoModelsAreNoticed) {
  const auto a = Model("a", 0, 0, 1).shards(2), b = Model("b", 0, 1, 1).shards(2);
  EXPECT_EQ(failure({a[0], b[1]}), "shard2: tensor 'output.weight' is also in shard1");
  EXPECT_EQ(failure({b[0], a[1]}), "shard1: key 'split.tensors.count' is 3, but the 2 shards have 2 tensors");
  Model four("c", 0, 0, 1);
  four.writer.add_tensor("more.weight", DType::IQ4_NL, Shape::of({32, 8}), bytes_of(four.contents[0]), 1);
  EXPECT_EQ(failure({a[0], four.shards(2)[1]}),
            "shard2: key 'split.tensors.count' is 4 here, but 3 in an earlier shard of shard1");
  EXPECT_EQ(failure({a[0], Model("d", 0, 0, 1).shards(3)[1]}), "shard2: key 'split.count' is 3, but the name says 2");
}

TEST(GgufShards, KeysThatDescribeTheModelMustAgree) {
  const auto good = Model("a", 0, 0, 1).shards(2);
  const auto second_with = [&](const char* key, uint32_t type, const std::string& value) {
    Craft craft;
    craft.key(key, type, value);
    craft.keys += split_keys(1, 2, 3);
    craft.n_keys += 3;
    craft.tensor(kTable, {32, 8}, static_cast<uint32_t>(DType::IQ4_NL), 0).content(18 * 8);
    return failure({good[0], craft.bytes()});
  };
  EXPECT_EQ(second_with("general.architecture", kString, str("llama")),
            "shard2: key 'general.architecture' is llama here, but qwen4exp in an earlier shard of shard1");
  EXPECT_EQ(second_with("qwen4exp.block_count", kU32, le<uint32_t>(48)),
            "shard2: key 'qwen4exp.block_count' is 48 here, but 12 in an earlier shard of shard1");
  EXPECT_EQ(second_with("qwen4exp.block_count", kI32, le<int32_t>(12)),
            "shard2: key 'qwen4exp.block_count' is 12 here, but 12 in an earlier shard of shard1");
  EXPECT_EQ(second_with("general.architecture", kString, str("qwen4exp")), "opened");
  EXPECT_EQ(second_with("general.alignment", kU32, le<uint32_t>(16)), "opened");
  EXPECT_EQ(second_with("qwen4exp.extra", kU32, le<uint32_t>(1)), "opened");
}

TEST(GgufShards, SplitKeysMustBeThereAndBeNumbers) {
  const auto good = Model("a", 0, 0, 1).shards(2);
  const auto second = [&](Craft craft) {
    craft.tensor(kTable, {32, 8}, static_cast<uint32_t>(DType::IQ4_NL), 0).content(18 * 8);
    return failure({good[0], craft.bytes()});
  };
  EXPECT_EQ(second(Craft().key("split.count", kU16, le<uint16_t>(2))),
            "shard2: key 'split.no' is missing in shard 2 of 2");
  EXPECT_EQ(second(Craft().key("split.no", kU16, le<uint16_t>(1))),
            "shard2: key 'split.count' is missing in shard 2 of 2");
  EXPECT_EQ(second(Craft().key("split.no", kString, str("1"))), "shard2: key 'split.no' is not a non-negative integer");
  EXPECT_EQ(second(Craft().key("split.no", kI32, le<int32_t>(-1))),
            "shard2: key 'split.no' is not a non-negative integer");
  EXPECT_EQ(second(Craft().array("split.count", kU16, 1, le<uint16_t>(1))),
            "shard2: key 'split.count' is not a non-negative integer");
}

TEST(GgufShards, AShardUnderAnotherNameIsNotAModel) {
  const TempDir dir;
  const auto shards = Model("m", 0, 0, 1).shards(2);
  const std::string path = dir.put("renamed.gguf", shards[1]);
  EXPECT_EQ(Gguf::open(path).status().message(),
            path + ": is shard 2 of 2, but its name does not end in -00002-of-00002.gguf");
}

TEST(GgufShards, JoinedShardsAreNoticed) {
  const auto shards = Model("m", 0, 0, 1).shards(2);
  EXPECT_EQ(failure({shards[0] + shards[1]}),
            "shard1: a second GGUF file begins at byte " + std::to_string(shards[0].size()) + ": files were joined");
}

TEST(GgufShards, ACutShardIsNamed) {
  auto shards = Model("m", 0, 0, 1).shards(2);
  shards[1].resize(200);
  EXPECT_EQ(failure(shards),
            "shard2: tensor 'per_layer_token_embd.weight' (IQ4_NL, 32 x 8) needs bytes 192 to 336 of the file, which "
            "has 200");
}

TEST(GgufShards, LeftOversOfAMergeAreIgnored) {
  Craft craft;
  craft.keys = split_keys(0, 0, 77);
  craft.n_keys = 3;
  EXPECT_EQ(failure({craft.bytes()}), "opened");
  craft.keys = split_keys(0, 1, 77);
  EXPECT_EQ(failure({craft.bytes()}), "shard1: key 'split.tensors.count' is 77, but the file has 0 tensors");
}

TEST(GgufShards, OnlyARightPatternInTheNameMeansShards) {
  const TempDir dir;
  GgufWriter writer;
  writer.set<uint32_t>("k", 1);
  for (const char* name :
       {"m-00001-of-00001.gguf", "m-00003-of-00002.gguf", "m-00000-of-00002.gguf", "m-0001-of-0002.gguf",
        "m-00001-of-0000x.gguf", "-00001-of-00002.gguf", "m-00001-of-00002.gguf.bak", "m_00001-of-00002.gguf"}) {
    ASSERT_TRUE(writer.write(dir.path(name)).ok());
    const auto file = Gguf::open(dir.path(name));
    if (std::string_view(name) == "-00001-of-00002.gguf") {
      EXPECT_EQ(file.status().code(), Code::not_found) << "an empty prefix is a prefix";
      continue;
    }
    ASSERT_TRUE(file.ok()) << file.status().text();
    EXPECT_EQ(file->n_shards(), 1);
  }
}

}  // namespace
}  // namespace strata
