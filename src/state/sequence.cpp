#include "state/sequence.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace strata {

int ring_rows(const SequenceLimits& limits) {
  // A dropped step must leave the open block of every position that the log can still rewind to.
  return std::max(limits.chunk_rows, kMaxWindow) + kMaxWindow + kPageTokens;
}

Result<std::unique_ptr<Sequence>> Sequence::create(PagePool& pool, const RunningGeometry& geometry,
                                                   const SequenceLimits& limits, SettleFn settle) {
  ASSIGN_OR_RETURN(auto running, RunningState::create(pool.memory(), geometry));
  return std::unique_ptr<Sequence>(new Sequence(pool, std::move(running), limits, std::move(settle)));
}

Sequence::Sequence(PagePool& pool, std::unique_ptr<RunningState> running, const SequenceLimits& limits, SettleFn settle)
    : pool_(pool),
      limits_(limits),
      settle_(std::move(settle)),
      pages_(pool),
      running_(std::move(running)),
      layers_(pool.geometry().layers) {
  const auto rows = static_cast<size_t>(ring_rows(limits));
  for (KvLayer& layer : layers_) {
    layer.raw_ring = rings_.emplace_back(rows * static_cast<size_t>(layer.index_dim)).data();
  }
  ring_pos_.resize(rows);
  records_.reserve(static_cast<size_t>(limits.max_context));
}

int Sequence::next_position() const {
  if (records_.empty()) return 0;
  // A picture ends with its last row and column; text goes on after the larger of the two.
  int last = 0;
  for (size_t i = records_.size(); i-- > 0;) {
    const Pos3& p = records_[i].pos;
    last = std::max({last, p.t, p.h, p.w});
    if (p.t == p.h && p.h == p.w) break;
  }
  return last + 1;
}

SequenceView& Sequence::view() {
  running_->fill(view_);
  view_.kv = {pool_.geometry().format, pages_.data(), layers_.data(), ring_pos_.data(),
              static_cast<int>(ring_pos_.size())};
  return view_;
}

Result<Segment> Sequence::begin(std::span<const TokenRecord> rows) {
  CHECK(pending_.empty(), "{} rows are still pending", pending_.size());
  CHECK(!rows.empty(), "a step needs rows");
  const RowRole role = rows.front().role;
  const auto n = static_cast<int>(rows.size());
  CHECK(n <= (role == RowRole::generated ? kMaxWindow : limits_.chunk_rows), "{} rows in one step", n);
  if (n > room()) {
    return Status(Code::out_of_range,
                  fmt::format("{} tokens and {} more exceed the context of {}", length(), n, limits_.max_context));
  }
  RETURN_IF_ERROR(pages_.make_writable(length(), n));
  pending_.assign(rows.begin(), rows.end());
  return Segment{&view(), 0, n, length(), role};
}

Result<Segment> Sequence::reach(Pos first, int n) {
  CHECK(pending_.empty() && first >= 0 && n > 0, "{} positions from {} of {}", n, first, length());
  if (first + n > limits_.max_context) {
    return Status(Code::out_of_range,
                  fmt::format("positions up to {} exceed the context of {}", first + n, limits_.max_context));
  }
  RETURN_IF_ERROR(pages_.make_writable(first, n));
  return Segment{&view(), 0, n, first, n <= kMaxWindow ? RowRole::generated : RowRole::prompt};
}

void Sequence::commit(int n_keep) {
  CHECK(!pending_.empty(), "nothing to commit");
  running_->commit(pending_.front().role, static_cast<int>(pending_.size()), n_keep);
  records_.insert(records_.end(), pending_.begin(), pending_.begin() + n_keep);
  abandon();
}

void Sequence::abandon() {
  pending_.clear();
  pages_.shorten(length());  // a page of dropped rows alone: a mark must not hold it
}

void Sequence::settle() {
  if (running_->kept_rows() == 0) return;
  settle_(view());
  running_->set_settled();
}

int Sequence::open_rows() const {
  for (const KvLayer& l : layers_) {
    if (l.block_tokens > 0) return static_cast<int>(length()) % l.block_tokens;
  }
  return 0;
}

std::vector<float> Sequence::copy_open_keys() const {
  std::vector<float> out;
  const Pos first = length() - open_rows();
  for (const KvLayer& l : layers_) {
    for (Pos p = first; p < length(); ++p) {
      const float* key = l.raw_ring + (static_cast<size_t>(p) % ring_pos_.size()) * static_cast<size_t>(l.index_dim);
      out.insert(out.end(), key, key + l.index_dim);
    }
  }
  return out;
}

void Sequence::put_open_keys(std::span<const float> keys) {
  const Pos first = length() - open_rows();
  size_t at = 0;
  for (const KvLayer& l : layers_) {
    const auto dim = static_cast<size_t>(l.index_dim);
    for (Pos p = first; p < length(); ++p, at += dim) {
      std::copy_n(keys.begin() + static_cast<std::ptrdiff_t>(at), dim,
                  l.raw_ring + (static_cast<size_t>(p) % ring_pos_.size()) * dim);
    }
  }
  for (Pos p = first; p < length(); ++p)
    ring_pos_[static_cast<size_t>(p) % ring_pos_.size()] = records_[static_cast<size_t>(p)].pos;
}

Result<Checkpoint> Sequence::snapshot() {
  CHECK(pending_.empty(), "a snapshot in the middle of a step");
  settle();
  ASSIGN_OR_RETURN(Buffer copy, pool_.memory().allocate(running_->geometry().snapshot_bytes(), "a checkpoint"));
  running_->copy_out(copy.data());
  return Checkpoint{length(), records_, pages_, std::move(copy), copy_open_keys()};
}

void Sequence::restore(const Checkpoint& c) {
  pending_.clear();
  marks_.clear();
  records_ = c.records;
  pages_ = c.pages;
  running_->copy_in(c.running.data());
  put_open_keys(c.open_keys);
}

Status Sequence::mark(size_t max_marks) {
  if (!marks_.empty() && marks_.back().length == length()) return {};
  // Before the new one, so that there are never more of them than the memory plan counted.
  if (!marks_.empty() && marks_.size() >= max_marks)
    marks_.erase(marks_.size() > 1 ? marks_.begin() + 1 : marks_.begin());
  ASSIGN_OR_RETURN(Checkpoint now, snapshot());
  now.records.clear();  // the sequence's own records are these, up to the mark's length
  now.records.shrink_to_fit();
  marks_.push_back(std::move(now));
  return {};
}

size_t Sequence::own_pages() const {
  std::unordered_map<PageId, int32_t> held;
  for (const PageId id : pages_.ids()) ++held[id];
  for (const Checkpoint& mark : marks_) {
    for (const PageId id : mark.pages.ids()) ++held[id];
  }
  return static_cast<size_t>(
      std::count_if(held.begin(), held.end(), [&](const auto& h) { return pool_.references(h.first) == h.second; }));
}

void Sequence::drop_marks_beyond(Pos length) {
  while (!marks_.empty() && marks_.back().length > length) marks_.pop_back();
}

std::vector<TokenRecord> Sequence::rewind(Pos target) {
  CHECK(target >= 0 && target <= length(), "rewind to {} of {}", target, length());
  pending_.clear();
  drop_marks_beyond(target);
  const int back = static_cast<int>(length() - target);
  if (back <= running_->kept_rows()) {  // still in the log: the base state lies before them
    running_->drop_kept(back);
    records_.resize(static_cast<size_t>(target));
    pages_.shorten(target);
    return {};
  }
  const Pos from = marks_.empty() ? 0 : marks_.back().length;
  std::vector<TokenRecord> again(records_.begin() + from, records_.begin() + target);
  records_.resize(static_cast<size_t>(from));
  if (marks_.empty()) {
    pages_.shorten(0);
    running_->reset();
  } else {
    pages_ = marks_.back().pages;
    running_->copy_in(marks_.back().running.data());
    put_open_keys(marks_.back().open_keys);
  }
  return again;
}

void Sequence::clear() {
  pending_.clear();
  marks_.clear();
  records_.clear();
  pages_.shorten(0);
  running_->reset();
}

}  // namespace strata
