#include "ops/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace strata {

TEST(HostMemory, GivesZeroedAlignedBuffers) {
  HostMemory memory;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{1000}, size_t{1} << 20}) {
    const auto buffer = memory.allocate(bytes, "test");
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % Arena::kAlign, 0u);
    EXPECT_TRUE(std::all_of(buffer->data(), buffer->data() + bytes, [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST(HostMemory, SaysWhatItCouldNotAllocate) {
  HostMemory memory;
  const auto buffer = memory.allocate(SIZE_MAX, "keys and values");
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.status().code(), Code::out_of_memory);
  EXPECT_NE(buffer.status().message().find("keys and values"), std::string::npos);
}

TEST(Arena, HandsOutAlignedPiecesThatDoNotOverlap) {
  HostMemory memory;
  Arena arena(memory.allocate(3 * Arena::kAlign, "test").value());
  float* a = arena.take<float>(1);
  const MatF32 b = arena.matrix(3, 5);
  EXPECT_EQ(reinterpret_cast<std::byte*>(b.data) - reinterpret_cast<std::byte*>(a), 64);
  EXPECT_EQ(arena.used(), 128u);
  arena.take_bytes(64);
  EXPECT_DEATH(arena.take_bytes(1), "192 of 192 bytes used");
}

}  // namespace strata
