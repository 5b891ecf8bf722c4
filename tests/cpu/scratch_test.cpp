#include "cpu/scratch.h"

#include <gtest/gtest.h>

namespace strata {

TEST(Carver, CountsWithoutMemoryWhatItTakesWithMemory) {
  Carver counter;
  EXPECT_EQ(counter.take<float>(3), nullptr);
  EXPECT_EQ(counter.take<std::byte>(65), nullptr);
  EXPECT_EQ(counter.used(), 64u + 128u);

  alignas(64) std::byte memory[192];
  Carver carver(memory, sizeof memory);
  EXPECT_EQ(reinterpret_cast<std::byte*>(carver.take<float>(3)), memory);
  EXPECT_EQ(carver.take<std::byte>(65), memory + 64);
  EXPECT_EQ(carver.used(), counter.used());
  EXPECT_DEATH(carver.take<float>(1), "scratch of 192 bytes, 256 wanted");
}

TEST(Scratch, GrowsWithEveryShapeThatSomeOperationNeeds) {
  const OpsShapes base{.max_rows = 8,
                       .d_model = 64,
                       .streams = 4,
                       .hyper_rank = 8,
                       .max_linear_inputs = 256,
                       .max_gdn_channels = 64,
                       .max_heads = 2,
                       .max_head_dim = 16,
                       .max_experts = 8,
                       .max_experts_used = 2,
                       .max_expert_width = 32,
                       .ngram_width = 64,
                       .max_context = 256,
                       .max_index_heads = 2,
                       .max_index_dim = 16,
                       .block_tokens = 4};
  const auto bytes = [](const OpsShapes& s) { return shared_scratch_bytes(s) + thread_scratch_bytes(s); };
  const auto grows = [&](auto member, auto value) {
    OpsShapes s = base;
    s.*member = value;
    EXPECT_GT(bytes(s), bytes(base));
  };
  grows(&OpsShapes::max_rows, 4096);
  grows(&OpsShapes::d_model, 4096);
  grows(&OpsShapes::hyper_rank, 4096);
  grows(&OpsShapes::max_linear_inputs, 65536);
  grows(&OpsShapes::max_gdn_channels, 65536);
  grows(&OpsShapes::max_heads, 4096);
  grows(&OpsShapes::max_head_dim, 65536);
  grows(&OpsShapes::max_experts, 65536);
  grows(&OpsShapes::max_experts_used, 4096);
  grows(&OpsShapes::max_expert_width, 65536);
  grows(&OpsShapes::ngram_width, 65536);
  grows(&OpsShapes::max_context, int64_t{1} << 24);
}

TEST(Scratch, NeedsNoIndexer) {
  OpsShapes shapes{
      .max_rows = 8, .d_model = 64, .streams = 4, .hyper_rank = 8, .max_linear_inputs = 256, .max_context = 1 << 20};
  const size_t without = thread_scratch_bytes(shapes);
  shapes.block_tokens = 4;
  EXPECT_GT(thread_scratch_bytes(shapes), without);
}

}  // namespace strata
