#include "text/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace strata {

namespace {

std::vector<int32_t> merge_naively(std::vector<int32_t> ids, const MergeTable& table) {
  while (true) {
    size_t best = 0;
    uint32_t best_rank = MergeTable::kNone;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      if (const uint32_t rank = table.rank(ids[i], ids[i + 1]); rank < best_rank) best = i, best_rank = rank;
    }
    if (best_rank == MergeTable::kNone) return ids;
    ids[best] = table.result(best_rank);
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

std::vector<int32_t> merged(std::vector<int32_t> ids, const MergeTable& table) {
  Merger merger(table);
  merger.merge(ids);
  return ids;
}

}  // namespace

TEST(Bpe, LowestRankGoesFirstAndTheLeftmostOfEquals) {
  const MergeTable table({{0, 1, 2}, {0, 0, 3}, {3, 1, 4}}, 5);
  EXPECT_EQ(merged({0, 0, 1}, table), (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(merged({0, 0, 0}, table), (std::vector<int32_t>{3, 0}));
  EXPECT_EQ(merged({0}, table), (std::vector<int32_t>{0}));
  EXPECT_EQ(merged({}, table), (std::vector<int32_t>{}));
}

TEST(Bpe, ARepeatedPairKeepsItsFirstRank) {
  const MergeTable table({{0, 1, 2}, {1, 1, 3}, {0, 1, 2}}, 4);
  EXPECT_EQ(table.rank(0, 1), 0u);
  EXPECT_EQ(table.rank(1, 1), 1u);
  EXPECT_EQ(table.rank(1, 0), MergeTable::kNone);
  EXPECT_EQ(table.rank(3, 3), MergeTable::kNone);
}

TEST(Bpe, AgreesWithTheDefinitionForRandomTables) {
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    // Tokens are strings over three letters, so that many pairs make the same token and low ranks appear late.
    std::vector<std::string> tokens = {"a", "b", "c"};
    std::map<std::string, int32_t> ids = {{"a", 0}, {"b", 1}, {"c", 2}};
    std::vector<Merge> merges;
    for (int i = 0; i < 20; ++i) {
      const auto left = static_cast<int32_t>(random() % tokens.size()),
                 right = static_cast<int32_t>(random() % tokens.size());
      const std::string text = tokens[static_cast<size_t>(left)] + tokens[static_cast<size_t>(right)];
      if (text.size() > 12) continue;
      const auto [at, added] = ids.try_emplace(text, static_cast<int32_t>(tokens.size()));
      if (added) tokens.push_back(text);
      merges.push_back({left, right, at->second});
    }
    std::shuffle(merges.begin(), merges.end(), random);
    const MergeTable table(merges, static_cast<int32_t>(tokens.size()));
    std::vector<int32_t> text;
    for (size_t n = random() % 40; n > 0; --n) text.push_back(static_cast<int32_t>(random() % 3));
    ASSERT_EQ(merged(text, table), merge_naively(text, table));
  }
}

TEST(Bpe, AMillionEqualIdsMergeInPairs) {
  std::vector<Merge> merges;
  for (int32_t i = 0; i < 10; ++i) merges.push_back({i, i, i + 1});
  const MergeTable table(merges, 11);
  EXPECT_EQ(merged(std::vector<int32_t>(size_t{1} << 20, 0), table), std::vector<int32_t>(size_t{1} << 10, 10));
}

}  // namespace strata
