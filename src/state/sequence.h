// One timeline: the tokens so far with the role each was computed in, their pages, and their running state. The only
// door through which a step becomes permanent: begin, forward, commit.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/config.h"
#include "state/kv_cache.h"
#include "state/running.h"

namespace strata {

inline uint64_t text_identity(TokenId token) {
  return static_cast<uint64_t>(token.v);
}

// What a sequence remembers of a token; a token that is read again gets the role it had.
struct TokenRecord {
  TokenId token;
  RowRole role = RowRole::prompt;
  Pos3 pos;
  uint64_t identity = 0;  // for prefix matching: the id, or a picture's hash mixed with it

  static TokenRecord text(TokenId token, int position, RowRole role) {
    return {token, role, {position, position, position}, text_identity(token)};
  }
  bool operator==(const TokenRecord&) const = default;
};

// A sequence at one moment. Pages are shared, running state is a copy.
struct Checkpoint {
  Pos length = 0;
  std::vector<TokenRecord> records;
  PageTable pages;
  Buffer running;                // RunningGeometry::snapshot_bytes()
  std::vector<float> open_keys;  // raw indexer keys of the open block: [layers][open rows][index_dim]
};

struct SequenceLimits {
  int max_context = 0;
  int chunk_rows = 0;  // most prompt rows in one step
};
int ring_rows(const SequenceLimits& limits);  // of raw indexer keys

class Sequence {
 public:
  // settle(view) must apply the kept rows of a view's log to its base states (Ops::settle with the model's layers).
  using SettleFn = std::function<void(SequenceView&)>;
  static Result<std::unique_ptr<Sequence>> create(PagePool& pool, const RunningGeometry& running,
                                                  const SequenceLimits& limits, SettleFn settle);

  Pos length() const { return static_cast<Pos>(records_.size()); }  // committed tokens
  std::span<const TokenRecord> records() const { return records_; }
  int next_position() const;  // rotary position of a text token that follows
  int room() const { return limits_.max_context - static_cast<int>(length()); }

  // Makes room for the rows of one step and returns the segment to run (first_row unset). All rows have one role; a
  // window has at most kMaxWindow rows, a chunk at most chunk_rows. Followed by commit, or by abandon if it never ran.
  Result<Segment> begin(std::span<const TokenRecord> rows);
  // Makes positions [first, first + n) writable for what goes along with the tokens (cells of a draft head): a segment
  // to run, nothing to commit. Positions beyond the length are reached without gaps.
  Result<Segment> reach(Pos first, int n);
  void commit(int n_keep);
  void abandon();
  std::span<const TokenRecord> pending() const { return pending_; }

  Result<Checkpoint> snapshot();
  void restore(const Checkpoint& checkpoint);
  // Remembers this moment for rewind; the oldest mark but one is forgotten when there are more than max_marks.
  Status mark(size_t max_marks = 4);
  size_t marks() const { return marks_.size(); }
  // Back to `target` tokens or to the last mark before it; returns the tokens between, which must be read again in
  // order.
  std::vector<TokenRecord> rewind(Pos target);
  void clear();

  // A file that only the same model (by fingerprint) and the same formats can load; every byte is under a checksum.
  Status save(const std::string& path, uint64_t fingerprint);
  Status load(const std::string& path, uint64_t fingerprint);  // on failure the sequence is as it was

 private:
  Sequence(PagePool& pool, std::unique_ptr<RunningState> running, const SequenceLimits& limits, SettleFn settle);
  SequenceView& view();
  void settle();
  int open_rows() const;
  std::vector<float> copy_open_keys() const;
  void put_open_keys(std::span<const float> keys);
  void drop_marks_beyond(Pos length);
  size_t own_pages() const;  // that clear would free
  friend class SequenceFile;

  PagePool& pool_;
  SequenceLimits limits_;
  SettleFn settle_;
  PageTable pages_;
  std::unique_ptr<RunningState> running_;
  std::vector<KvLayer> layers_;
  std::vector<std::vector<float>> rings_;  // [attention layer][ring_rows * index_dim]
  std::vector<Pos3> ring_pos_;
  std::vector<TokenRecord> records_, pending_;
  std::deque<Checkpoint> marks_;
  SequenceView view_;
};

}  // namespace strata
