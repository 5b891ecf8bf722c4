#include "os/large_memory.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

namespace strata {
namespace {

TEST(LargeMemory, IsZeroAndStartsAtALargePage) {
  Result<LargeMemory> memory = LargeMemory::map(5'000'001, "a test");
  ASSERT_TRUE(memory.ok()) << memory.status().text();
  EXPECT_EQ(memory->bytes(), 5'000'001u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % (2 << 20), 0u);
  EXPECT_EQ(memory->data()[5'000'000], std::byte{0});
  std::memset(memory->data(), 1, memory->bytes());
  EXPECT_GE(memory->large_share(), 0.0);
  EXPECT_LE(memory->large_share(), 1.0);
}

TEST(LargeMemory, MovesWithItsContents) {
  LargeMemory a = LargeMemory::map(100, "a test").value();
  a.data()[99] = std::byte{7};
  LargeMemory b(std::move(a));
  EXPECT_EQ(b.data()[99], std::byte{7});
  LargeMemory c;
  c = std::move(b);
  EXPECT_EQ(c.data()[99], std::byte{7});
  EXPECT_EQ(c.bytes(), 100u);
}

TEST(LargeMemory, WhatTheSystemCannotGiveIsAnError) {
  for (const size_t bytes : {size_t{0}, std::numeric_limits<size_t>::max() / 4, std::numeric_limits<size_t>::max()}) {
    const Result<LargeMemory> memory = LargeMemory::map(bytes, "the working set");
    ASSERT_FALSE(memory.ok());
    EXPECT_EQ(memory.status().code(), Code::out_of_memory);
    EXPECT_NE(memory.status().text().find("the working set"), std::string::npos);
  }
}

TEST(LargeMemory, TheShareOfLargePagesComesFromItsOwnMaps) {
  const std::string maps =
      "1000-2000 r-xp 00000000 08:01 1234 a file\nAnonHugePages:   2048 kB\n"
      "400000-800000 rw-p 00000000 00:00 0 \nSize: 4096 kB\nAnonHugePages:      2048 kB\nTHPeligible: 1\n"
      "800000-900000 rw-p 00000000 00:00 0 \nAnonHugePages:      1024 kB\n";
  EXPECT_EQ(large_page_share(maps, 0x400000, 0x800000), 0.5);
  EXPECT_EQ(large_page_share(maps, 0x400000, 0x600000), 1.0);
  EXPECT_EQ(large_page_share(maps, 0x900000, 0xa00000), 0.0);
  EXPECT_EQ(large_page_share("", 0x400000, 0x800000), 0.0);
  EXPECT_EQ(large_page_share("400000-800000 rw\nAnonHugePages: many\n", 0x400000, 0x800000), 0.0);
  EXPECT_EQ(large_page_share("400000-800000 rw\nAnonHugePages:", 0x400000, 0x800000), 0.0);
}

}  // namespace
}  // namespace strata
