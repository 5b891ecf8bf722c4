#include "quant/random_blocks.h"

#include "quant/reference.h"
#include "quant/vectors.h"

namespace strata {
namespace {

std::vector<std::byte> make(DType type, uint64_t seed, int64_t n_blocks, float rms) {
  std::vector<std::byte> blocks(row_bytes(type, n_blocks * traits(type).block_elems));
  random_blocks(type, seed, n_blocks, blocks.data(), rms);
  return blocks;
}

TEST(RandomBlocks, HaveTheWantedSizeInEveryFormat) {
  for (const TypeTraits& t : all_types()) {
    for (const float rms : {0.001f, 0.02f, 1.0f, 100.0f}) {
      if (t.type == DType::NVFP4 && rms < 0.02f) continue;
      const int64_t n = 256 * 1024;
      const std::vector<std::byte> blocks = make(t.type, 11, n / t.block_elems, rms);
      std::vector<float> values(static_cast<size_t>(n));
      dequantise_row(t.type, blocks.data(), n, values.data());
      double sum = 0;
      double squares = 0;
      for (const float v : values) {
        ASSERT_TRUE(std::isfinite(v)) << t.name;
        sum += static_cast<double>(v);
        squares += static_cast<double>(v) * static_cast<double>(v);
      }
      const double found = std::sqrt(squares / static_cast<double>(n));
      // Scales of MXFP4 are powers of two, those of NVFP4 few at this size; the others follow closely.
      const double slack = t.type == DType::MXFP4 || t.type == DType::NVFP4 ? 0.45 : 0.05;
      EXPECT_NEAR(found / static_cast<double>(rms), 1.0, slack) << t.name << " at " << rms;
      EXPECT_NEAR(sum / static_cast<double>(n) / static_cast<double>(rms), 0.0, 0.1) << t.name << " at " << rms;
    }
  }
}

TEST(RandomBlocks, DependOnSeedAndBlockAlone) {
  for (const TypeTraits& t : all_types()) {
    const std::vector<std::byte> few = make(t.type, 21, 40, 0.02f);
    const std::vector<std::byte> many = make(t.type, 21, 90, 0.02f);
    EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin())) << t.name;
    EXPECT_NE(few, make(t.type, 22, 40, 0.02f)) << t.name;
    const auto half = static_cast<std::ptrdiff_t>(few.size() / 2);
    EXPECT_FALSE(std::equal(few.begin(), few.begin() + half, few.begin() + half)) << t.name;
    std::vector<std::byte> rest(few.size() - few.size() / 40 * 7);
    random_blocks(t.type, 21, 33, rest.data(), 0.02f, 7);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), few.end() - static_cast<std::ptrdiff_t>(rest.size()))) << t.name;
  }
}

TEST(RandomBlocks, AreTheSameBytesOnEveryMachine) {
  const auto fnv = [](const std::vector<std::byte>& bytes) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const std::byte b : bytes) hash = (hash ^ static_cast<uint64_t>(b)) * 0x100000001b3u;
    return hash;
  };
  uint64_t all = 0;
  for (const TypeTraits& t : all_types()) all = all * 31 + fnv(make(t.type, 1, 16, 0.02f));
  EXPECT_EQ(all, 11440346634800880055u);
}

}  // namespace
}  // namespace strata
