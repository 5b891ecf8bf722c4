#include "text/bpe.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace strata {

namespace {
constexpr uint32_t kEnd = UINT32_MAX;
}

MergeTable::MergeTable(std::vector<Merge> by_rank, int32_t n_tokens) : by_rank_(std::move(by_rank)) {
  const size_t n = by_rank_.size();
  rows_.assign(static_cast<size_t>(n_tokens) + 1, 0);
  for (const Merge& m : by_rank_) ++rows_[static_cast<size_t>(m.left) + 1];
  std::partial_sum(rows_.begin(), rows_.end(), rows_.begin());
  ranks_.resize(n);
  std::vector<uint32_t> fill(rows_.begin(), rows_.end() - 1);
  for (size_t i = 0; i < n; ++i) ranks_[fill[static_cast<size_t>(by_rank_[i].left)]++] = static_cast<uint32_t>(i);
  const auto right_of = [&](uint32_t rank) { return by_rank_[rank].right; };
  for (size_t row = 0; row + 1 < rows_.size(); ++row) {
    std::sort(ranks_.begin() + rows_[row], ranks_.begin() + rows_[row + 1],
              [&](uint32_t a, uint32_t b) { return right_of(a) != right_of(b) ? right_of(a) < right_of(b) : a < b; });
  }
  rights_.resize(n);
  std::transform(ranks_.begin(), ranks_.end(), rights_.begin(), right_of);
}

uint32_t MergeTable::rank(int32_t left, int32_t right) const {
  const auto begin = rights_.begin() + rows_[static_cast<size_t>(left)];
  const auto end = rights_.begin() + rows_[static_cast<size_t>(left) + 1];
  const auto at = std::lower_bound(begin, end, right);
  return at == end || *at != right ? kNone : ranks_[static_cast<size_t>(at - rights_.begin())];
}

void Merger::update_pair(uint32_t node) {
  Node& n = nodes_[node];
  n.rank = n.next == kEnd ? MergeTable::kNone : table_.rank(n.id, nodes_[n.next].id);
  if (n.rank == MergeTable::kNone) return;
  queue_.push_back(uint64_t{n.rank} << 32 | node);
}

void Merger::merge(std::vector<int32_t>& ids) {
  const auto n = static_cast<uint32_t>(ids.size());
  if (n < 2) return;
  nodes_.resize(n);
  for (uint32_t i = 0; i < n; ++i) nodes_[i] = {ids[i], MergeTable::kNone, i - 1, i + 1};
  nodes_[n - 1].next = kEnd;
  queue_.clear();
  for (uint32_t i = 0; i < n; ++i) update_pair(i);
  const std::greater<> lowest_first;
  std::make_heap(queue_.begin(), queue_.end(), lowest_first);
  while (!queue_.empty()) {
    const uint64_t top = queue_.front();
    std::pop_heap(queue_.begin(), queue_.end(), lowest_first);
    queue_.pop_back();
    const auto at = static_cast<uint32_t>(top);
    const auto rank = static_cast<uint32_t>(top >> 32);
    Node& node = nodes_[at];
    if (node.rank != rank) continue;  // one of its two has merged since
    Node& gone = nodes_[node.next];
    gone.rank = MergeTable::kNone;
    node.id = table_.result(rank);
    node.next = gone.next;
    if (node.next != kEnd) nodes_[node.next].prev = at;
    for (const uint32_t changed : {at, node.prev}) {
      if (changed == kEnd) continue;
      const size_t before = queue_.size();
      update_pair(changed);
      if (queue_.size() != before) std::push_heap(queue_.begin(), queue_.end(), lowest_first);
    }
  }
  ids.clear();
  for (uint32_t i = 0; i != kEnd; i = nodes_[i].next) ids.push_back(nodes_[i].id);
}

}  // namespace strata
