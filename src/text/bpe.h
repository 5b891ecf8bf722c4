// Byte pair merging: the rank table of a vocabulary and the merging of one pre-token.
// Promises the standard result (always the merge of lowest rank, of these the leftmost) in O(n log n) for any table and
// input.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace strata {

struct Merge {
  int32_t left = 0, right = 0, result = 0;
};

class MergeTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  MergeTable() = default;
  // Rank is the index in `by_rank`; a pair listed twice keeps its first rank. All ids are below n_tokens.
  MergeTable(std::vector<Merge> by_rank, int32_t n_tokens);

  uint32_t rank(int32_t left, int32_t right) const;  // kNone when the two do not merge
  int32_t result(uint32_t rank) const { return by_rank_[rank].result; }

 private:
  std::vector<Merge> by_rank_;
  // The pairs as rows by left id, sorted by right id in a row: a search needs no hash that a crafted table could
  // defeat.
  std::vector<uint32_t> rows_;  // [n_tokens + 1]
  std::vector<int32_t> rights_;
  std::vector<uint32_t> ranks_;
};

// Scratch space that merges one sequence after another.
class Merger {
 public:
  explicit Merger(const MergeTable& table) : table_(table) {}
  // Merges `ids` in place until no pair is left that merges. At most 2^32 - 2 ids.
  void merge(std::vector<int32_t>& ids);

 private:
  struct Node {
    int32_t id;
    uint32_t rank;  // of the pair that this node and the next one form
    uint32_t prev, next;
  };
  void update_pair(uint32_t node);

  const MergeTable& table_;
  std::vector<Node> nodes_;
  std::vector<uint64_t> queue_;  // rank << 32 | node: a heap of candidates, some of them outdated
};

}  // namespace strata
