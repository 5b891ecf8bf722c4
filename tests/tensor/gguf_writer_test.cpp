#include "tensor/gguf_writer.h"

#include <sys/resource.h>

#include <csignal>

#include "temp_dir.h"
#include "tensor/craft.h"

namespace strata {
namespace {

Status fill_with_offsets(uint64_t offset, std::span<std::byte> chunk) {
  for (size_t i = 0; i < chunk.size(); ++i) chunk[i] = static_cast<std::byte>((offset + i) * 7 % 251);
  return {};
}

void expect_same(const Gguf& a, const Gguf& b) {
  ASSERT_EQ(a.tensors().size(), b.tensors().size());
  for (const GgufTensor& tensor : a.tensors()) {
    const GgufTensor* other = b.find_tensor(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    EXPECT_EQ(other->type, tensor.type) << tensor.name;
    EXPECT_EQ(other->shape, tensor.shape) << tensor.name;
    ASSERT_EQ(other->bytes, tensor.bytes) << tensor.name;
    EXPECT_EQ(std::memcmp(other->data, tensor.data, tensor.bytes), 0) << tensor.name;
  }
  for (const std::string_view key : a.keys()) {
    const GgufValue *mine = a.find(key), *other = b.find(key);
    ASSERT_NE(other, nullptr) << key;
    EXPECT_EQ(other->type, mine->type) << key;
    EXPECT_EQ(other->is_array, mine->is_array) << key;
    EXPECT_EQ(other->count, mine->count) << key;
    ASSERT_EQ(other->bytes, mine->bytes) << key;
    EXPECT_TRUE(std::equal(mine->data, mine->data + mine->bytes, other->data)) << key;
  }
}

TEST(GgufWriter, WritesExactlyTheBytesOfTheFormat) {
  const std::string data(12, 'd');
  GgufWriter writer;
  writer.set<uint16_t>("k", 5);
  writer.set_strings("s", {"ab", ""});
  writer.set_array<bool>("b", {true});
  writer.add_tensor("t", DType::F32, Shape::of({3}), bytes_of(data));
  Craft craft;
  craft.key("k", kU16, le<uint16_t>(5)).array("s", kString, 2, str("ab") + str("")).array("b", kBool, 1, "\1");
  craft.tensor("t", {3}, 0, 0);
  craft.data = data + std::string(20, '\0');
  EXPECT_EQ(writer.to_bytes().value(), craft.bytes());
}

TEST(GgufWriter, TheSameCallsGiveTheSameBytes) {
  const auto make = [] {
    GgufWriter writer;
    writer.set<float>("f", 0.1F);
    writer.set_string("s", "text");
    writer.add_tensor("a", DType::Q8_0, Shape::of({64, 3}), fill_with_offsets);
    writer.add_tensor("b", DType::BF16, Shape::of({5}), fill_with_offsets);
    return writer.to_bytes().value();
  };
  EXPECT_EQ(make(), make());
}

TEST(GgufWriter, EveryTensorTypeReadsBackFromSpansAndFromChunks) {
  GgufWriter writer;
  std::vector<std::string> contents;
  for (const TypeTraits& t : all_types()) {
    std::string content(static_cast<size_t>(t.block_bytes) * 15, '\0');
    ASSERT_TRUE(fill_with_offsets(0, std::as_writable_bytes(std::span(content))).ok());
    contents.push_back(content);
  }
  for (size_t i = 0; i < contents.size(); ++i) {
    const TypeTraits& t = all_types()[i];
    writer.add_tensor(std::string(t.name) + ".span", t.type, Shape::of({t.block_elems * 3, 5}), bytes_of(contents[i]));
    writer.add_tensor(std::string(t.name) + ".fill", t.type, Shape::of({t.block_elems * 3, 5}), fill_with_offsets);
  }
  const std::string bytes = writer.to_bytes().value();
  const auto file = Gguf::parse({{"m.gguf", bytes_of(bytes)}});
  ASSERT_TRUE(file.ok()) << file.status().text();
  ASSERT_EQ(file->tensors().size(), 2 * contents.size());
  for (size_t i = 0; i < file->tensors().size(); ++i) {
    const GgufTensor& tensor = file->tensors()[i];
    EXPECT_EQ(tensor.type, all_types()[i / 2].type);
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(tensor.data), tensor.bytes), contents[i / 2])
        << tensor.name;
  }
}

TEST(GgufWriter, FillsLargeTensorsInZeroedChunksOfWholeBlocks) {
  // 84-byte blocks do not divide a chunk of a round size.
  GgufWriter writer;
  const int64_t rows = 500000;
  const Shape shape = Shape::of({256, rows});
  uint64_t next = 0;
  size_t largest = 0;
  writer.add_tensor("t", DType::Q2_K, shape, [&](uint64_t offset, std::span<std::byte> chunk) {
    EXPECT_EQ(offset, next);
    EXPECT_EQ(chunk.size() % 84, 0U);
    for (const std::byte b : chunk) EXPECT_EQ(b, std::byte{0});
    next += chunk.size();
    largest = std::max(largest, chunk.size());
    return fill_with_offsets(offset, chunk);
  });
  const std::string bytes = writer.to_bytes().value();
  EXPECT_EQ(next, 84U * rows);
  EXPECT_LE(largest, size_t{16} << 20);
  EXPECT_LT(largest, next / 2);
  const auto file = Gguf::parse({{"m.gguf", bytes_of(bytes)}});
  ASSERT_TRUE(file.ok()) << file.status().text();
  std::vector<std::byte> expected(file->tensors()[0].bytes);
  ASSERT_TRUE(fill_with_offsets(0, expected).ok());
  EXPECT_EQ(std::memcmp(file->tensors()[0].data, expected.data(), expected.size()), 0);
}

TEST(GgufWriter, AlignmentMovesTheDataInFilesAndShards) {
  for (const uint32_t alignment : {8U, 32U, 256U}) {
    GgufWriter writer;
    writer.set<uint32_t>("general.alignment", alignment);
    writer.add_tensor("a", DType::F32, Shape::of({1}), fill_with_offsets);
    writer.add_tensor("b", DType::F32, Shape::of({1}), fill_with_offsets, 1);
    const std::string whole = writer.to_bytes().value();
    const auto file = Gguf::parse({{"m.gguf", bytes_of(whole)}});
    ASSERT_TRUE(file.ok()) << file.status().text();
    EXPECT_EQ(file->tensors()[1].file_offset - file->tensors()[0].file_offset, alignment);
    const auto shards = writer.shards_to_bytes(2).value();
    const auto both = Gguf::parse({{"1", bytes_of(shards[0])}, {"2", bytes_of(shards[1])}});
    ASSERT_TRUE(both.ok()) << both.status().text();
    EXPECT_EQ(both->tensors()[1].file_offset % alignment, 0U);
    EXPECT_EQ(both->find_tensor("b")->data[3], std::byte{21});
  }
}

TEST(GgufWriter, TheBundledModelSplitsIntoShardsThatReadTheSame) {
  const auto model = Gguf::open(STRATA_SOURCE_DIR "/models/flash-next-nano-IQ3_XXS.gguf");
  ASSERT_TRUE(model.ok()) << model.status().text();
  GgufWriter writer;
  for (const std::string_view key : model->keys()) writer.copy(key, *model->find(key));
  for (size_t i = 0; i < model->tensors().size(); ++i) {
    const GgufTensor& tensor = model->tensors()[i];
    writer.add_tensor(tensor.name, tensor.type, tensor.shape, {tensor.data, tensor.bytes}, static_cast<int>(1 + i % 3));
  }
  const TempDir dir;
  ASSERT_TRUE(writer.write(dir.path("whole.gguf")).ok());
  EXPECT_EQ(writer.bytes(0).value(), std::filesystem::file_size(dir.path("whole.gguf")));
  const auto whole = Gguf::open(dir.path("whole.gguf"));
  ASSERT_TRUE(whole.ok()) << whole.status().text();
  EXPECT_EQ(whole->file_bytes(), model->file_bytes());
  EXPECT_EQ(whole->keys(), model->keys());
  expect_same(*model, *whole);
  const auto paths = writer.write_shards(dir.path("split"), 4);
  ASSERT_TRUE(paths.ok()) << paths.status().text();
  const auto split = Gguf::open(paths->at(2));
  ASSERT_TRUE(split.ok()) << split.status().text();
  EXPECT_EQ(split->n_shards(), 4);
  EXPECT_EQ(writer.bytes(4).value(), split->file_bytes());
  EXPECT_EQ(split->tensors().size(), 315U);
  EXPECT_EQ(split->keys().size(), 59U + 3) << "and split.no, split.count, split.tensors.count";
  expect_same(*model, *split);
}

TEST(GgufWriter, TheFirstMistakeIsReportedWhenWriting) {
  const std::string data(16, 'd');
  const auto text = [](auto&& use) {
    GgufWriter writer;
    use(writer);
    const Status status = writer.to_bytes().status();
    EXPECT_EQ(writer.write("never-written.gguf").text(), status.text());
    return status.text();
  };
  EXPECT_EQ(text([](auto& w) { w.template set<uint8_t>("", 1); }), "key '': the name is empty");
  EXPECT_EQ(text([](auto& w) {
              w.set_string("k", "a");
              w.set_string("k", "b");
            }),
            "key 'k' was set twice");
  EXPECT_EQ(text([](auto& w) { w.template set<uint32_t>("general.alignment", 24); }),
            "key 'general.alignment': expected a u32 power of two from 8 to 1048576");
  EXPECT_EQ(text([](auto& w) { w.template set<uint64_t>("general.alignment", 32); }),
            "key 'general.alignment': expected a u32 power of two from 8 to 1048576");
  EXPECT_EQ(text([&](auto& w) {
              w.add_tensor("t", DType::F32, Shape::of({4, 0}), bytes_of(data));
            }),
            "tensor 't': dimension 1 is 0, expected at least 1");
  EXPECT_EQ(text([&](auto& w) { w.add_tensor("t", DType::Q6_K, Shape::of({4}), bytes_of(data)); }),
            "tensor 't': rows of 4 values are not a whole number of Q6_K blocks of 256 values");
  EXPECT_EQ(text([&](auto& w) { w.add_tensor("t", DType::F32, Shape::of({5}), bytes_of(data)); }),
            "tensor 't' (F32, 5) has 16 bytes, expected 20");
  EXPECT_EQ(text([&](auto& w) {
              w.add_tensor("t", DType::F32, Shape::of({4}), bytes_of(data));
              w.add_tensor("t", DType::F32, Shape::of({4}), bytes_of(data));
            }),
            "tensor 't' was added twice");
}

TEST(GgufWriter, ShardsMustExistAndSplitKeysAreItsOwn) {
  GgufWriter writer;
  writer.add_tensor("t", DType::F32, Shape::of({1}), fill_with_offsets, 2);
  EXPECT_EQ(writer.shards_to_bytes(2).status().text(), "tensor 't' is for shard 2, but there are 2");
  EXPECT_EQ(writer.shards_to_bytes(0).status().text(), "0 shards, expected 1 to 65535");
  EXPECT_TRUE(writer.shards_to_bytes(3).ok());
  writer.set<uint16_t>("split.no", 0);
  EXPECT_EQ(writer.shards_to_bytes(3).status().text(), "key 'split.no' is written with the shards and cannot be set");
  EXPECT_TRUE(writer.to_bytes().ok());
}

TEST(GgufWriter, AFailingCallbackNamesItsTensorAndLeavesNoFile) {
  const TempDir dir;
  GgufWriter writer;
  writer.add_tensor("bad.weight", DType::F32, Shape::of({1}), [](uint64_t, std::span<std::byte>) {
    return Status{Code::cancelled, "stopped"};
  });
  const Status status = writer.write(dir.path("m.gguf"));
  EXPECT_EQ(status.text(), "tensor 'bad.weight': stopped");
  EXPECT_EQ(status.code(), Code::cancelled);
  EXPECT_EQ(dir.entries(), 0U);
}

TEST(GgufWriter, AFailureWhileFillingLeavesNoShardBehind) {
  const TempDir dir;
  GgufWriter writer;
  writer.add_tensor("first", DType::F32, Shape::of({8}), fill_with_offsets, 0);
  writer.add_tensor(
      "second", DType::F32, Shape::of({int64_t{6} << 20}),
      [](uint64_t offset, std::span<std::byte>) { return offset == 0 ? Status() : Status(Code::cancelled, "enough"); },
      1);
  const Status status = writer.write_shards(dir.path("m"), 2).status();
  EXPECT_EQ(status.text(), "tensor 'second': enough");
  EXPECT_EQ(status.code(), Code::cancelled);
  EXPECT_EQ(dir.entries(), 0U);
}

TEST(GgufWriter, AFullDiskIsAnErrorAndLeavesTheOldFile) {
  const TempDir dir;
  dir.put("m.gguf", "old");
  GgufWriter writer;
  writer.add_tensor("t", DType::F32, Shape::of({1 << 20}), fill_with_offsets);
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  rlimit small = old;
  small.rlim_cur = 100000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = writer.write(dir.path("m.gguf"));
  const Status shards = writer.write_shards(dir.path("s"), 1).status();
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code(), Code::io);
  EXPECT_NE(status.text().find("m.gguf: larger than the system allows"), std::string::npos) << status.text();
  EXPECT_EQ(shards.code(), Code::io);
  EXPECT_EQ(dir.get("m.gguf"), "old");
  EXPECT_EQ(dir.entries(), 1U);
}

}  // namespace
}  // namespace strata
