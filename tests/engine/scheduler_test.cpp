#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <vector>

namespace strata {
namespace {

// Where the chunks of a prompt of `tokens` end that begins at `start`.
std::vector<int> ends(int start, int tokens, int chunk_rows) {
  std::vector<int> out;
  for (int at = start; at < start + tokens;) {
    const int n = prompt_chunk(at, start + tokens - at, chunk_rows);
    EXPECT_GE(n, 1);
    EXPECT_LE(n, std::min(chunk_rows, start + tokens - at));
    at += n;
    out.push_back(at);
  }
  return out;
}

TEST(PromptChunk, TakesAllThatIsLeftWhenItFits) {
  EXPECT_EQ(ends(0, 1, 512), (std::vector<int>{1}));
  EXPECT_EQ(ends(0, 511, 512), (std::vector<int>{511}));
  EXPECT_EQ(ends(0, 512, 512), (std::vector<int>{512}));
  EXPECT_EQ(ends(37, 100, 512), (std::vector<int>{137}));
}

TEST(PromptChunk, EndsOnACutWhenItDoesNotFinishThePrompt) {
  EXPECT_EQ(ends(0, 1300, 512), (std::vector<int>{512, 1024, 1300}));
  EXPECT_EQ(ends(10, 1300, 512), (std::vector<int>{512, 1024, 1310}));
  EXPECT_EQ(ends(500, 600, 512), (std::vector<int>{960, 1100}));
  EXPECT_EQ(ends(0, 300, 100), (std::vector<int>{64, 128, 192, 256, 300}));
}

TEST(PromptChunk, ChunksSmallerThanACutReachItInPieces) {
  EXPECT_EQ(ends(0, 100, 40), (std::vector<int>{40, 64, 100}));
  EXPECT_EQ(ends(60, 100, 40), (std::vector<int>{64, 104, 128, 160}));
  EXPECT_EQ(ends(0, 20, 8), (std::vector<int>{8, 16, 20}));
}

TEST(PromptChunk, BeginningOnACutOrOffItAllCutsAreMultiplesOf64) {
  for (int start = 0; start < 130; start += 13) {
    for (const int chunk : {64, 65, 100, 127, 128, 200, 512}) {
      const auto e = ends(start, 700, chunk);
      for (size_t i = 0; i + 1 < e.size(); ++i) EXPECT_EQ(e[i] % kCutTokens, 0) << start << " " << chunk;
      EXPECT_EQ(e.back(), start + 700);
    }
  }
}

// The cuts of a prompt do not depend on where the cached part of it ended, as long as chunks hold a whole cut.
TEST(PromptChunk, TheLastCutIsTheSameHoweverMuchWasRead) {
  for (int start = 0; start < 1000; start += 7) {
    const auto e = ends(start, 1300 - start, 256);
    if (e.size() < 2) continue;
    EXPECT_GE(e[e.size() - 2], 1300 - 256);
  }
}

}  // namespace
}  // namespace strata
