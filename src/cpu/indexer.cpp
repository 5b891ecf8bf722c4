#include "cpu/indexer.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "cpu/mixers.h"
#include "cpu/ops_cpu.h"
#include "cpu/scratch.h"

namespace strata {

void check_index_memory(const QsaWeights& w, const KvView& kv, int ordinal, int n_rows) {
  const KvLayer& layer = kv.layers[ordinal];
  CHECK(layer.index_dim == w.index_dim && layer.block_tokens == w.block_tokens, "index keys of {} in blocks of {}",
        layer.index_dim, layer.block_tokens);
  CHECK(kv.ring_rows >= n_rows + w.block_tokens - 1, "a ring of {} rows for a step of {}", kv.ring_rows, n_rows);
}

void prepare_index(const Kernels& kernels, const QsaWeights& w, int ordinal, const QsaInputs& in, int row,
                   const KvView& kv, Pos p, const Pos3& pos, const Turn& turn, MatF32 index_q) {
  for (int head = 0; head < w.index_heads; ++head) {
    float* query = index_q.row(row) + head * w.index_dim;
    kernels.rms_norm(in.index_q.row(row) + head * w.index_dim, w.index_q_norm, w.index_dim, w.eps, query);
    turn.apply(query);
  }
  std::copy_n(in.index_k.row(row), w.index_dim, kv.raw_key(ordinal, p));
  kv.ring_pos[p % kv.ring_rows] = pos;
}

void finish_block(const Kernels& kernels, const QsaWeights& w, int ordinal, const KvView& kv, Pos first,
                  const Turn& turn) {
  float* key = kv.block_key(ordinal, first / w.block_tokens);
  std::fill_n(key, w.index_dim, 0.0f);
  for (Pos p = first; p < first + w.block_tokens; ++p)
    kernels.add_scaled(key, kv.raw_key(ordinal, p), 1.0f, w.index_dim);
  for (int i = 0; i < w.index_dim; ++i) key[i] /= static_cast<float>(w.block_tokens);
  kernels.rms_norm(key, w.index_k_norm, w.index_dim, w.eps, key);
  turn.apply(key);
}

namespace {

// Asks for the start of memory that is read soon: pages lie anywhere, so the processor does not guess the next one.
void fetch_start(const float* from) {
  for (int i = 0; i < 128; i += 16) __builtin_prefetch(from + i);
}

// The scores of blocks [first, last): the keys of a page lie side by side.
void score_blocks(const MixerKernels& kernels, const QsaWeights& w, const KvView& kv, int ordinal, const float* queries,
                  int first, int last, float* scores) {
  const int per_page = kPageTokens / w.block_tokens;
  for (int b = first, n; b < last; b += n) {
    n = std::min(per_page - b % per_page, last - b);
    if (b + n < last) fetch_start(kv.block_key(ordinal, b + n));
    kernels.block_scores(kv.block_key(ordinal, b), n, queries, w.index_heads, w.index_dim, scores + b);
  }
}

// Scores are -inf or not negative: these whole numbers have their order.
float score_at(int32_t rank) {
  return rank < 0 ? -std::numeric_limits<float>::infinity() : std::bit_cast<float>(rank);
}
constexpr int32_t kBeyondAll = 0x7f800001;  // no score: it compares with nothing

// The scores from low on are at least `budget` many, those from high on less.
struct Bracket {
  int32_t low = -1, high = kBeyondAll;
  int n_low = 0, n_high = 0;
};

// Halves the bracket until few scores are left in it.
Bracket narrow(const MixerKernels& kernels, const float* scores, int n, int budget) {
  constexpr int kFew = 64, kPasses = 16;
  Bracket b;
  b.n_low = n;
  for (int pass = 0; pass < kPasses && b.n_low - b.n_high > kFew && b.high - b.low > 1; ++pass) {
    const int32_t middle = b.low + (b.high - b.low) / 2;
    const int count = kernels.count_at_least(scores, n, score_at(middle));
    (count >= budget ? b.low : b.high) = middle;
    (count >= budget ? b.n_low : b.n_high) = count;
  }
  return b;
}

// The `budget` best of n scores, ascending; of equal ones the lower. Linear in n whatever the scores are.
void pick_blocks(const MixerKernels& kernels, const SelectTask& t, const float* scores, int n, int budget,
                 int32_t* blocks) {
  const Bracket b = narrow(kernels, scores, n, budget);
  const int close = kernels.find_between(scores, n, score_at(b.low), score_at(b.high), t.found);
  for (int i = 0; i < close; ++i) t.close[i] = scores[t.found[i]];
  const int wanted = budget - b.n_high;  // of the close ones
  std::nth_element(t.close, t.close + wanted - 1, t.close + close, std::greater<>());
  const float threshold = t.close[wanted - 1];
  auto ties = static_cast<int>(std::count(t.close, t.close + wanted, threshold));
  const int found = kernels.find_between(scores, n, threshold, score_at(kBeyondAll), t.found);
  for (int i = 0; i < found; ++i) {
    if (scores[t.found[i]] > threshold || ties-- > 0) *blocks++ = t.found[i];
  }
}

// The rows of one segment that choose among more blocks than their budget.
class SelectRun {
 public:
  SelectRun(const Workshop& shop, const QsaWeights& w, int ordinal, const Queries& q, const Segment& segment,
            const Selection& out)
      : shop_(shop), kernels_(*shop.kernels.mixers), w_(w), ordinal_(ordinal), q_(q), segment_(segment), out_(out) {}

  // Some rows on one thread: they share each stretch of keys while it is near.
  void rows(int first, int last, int thread) const {
    constexpr int kStretch = 1024;
    const int most = complete(last - 1);
    Carver own = shop_.of_thread(thread);
    const SelectTask t = SelectTask::carve(own, most);
    const auto scores = [&](int i) { return t.scores + static_cast<int64_t>(i - first) * most; };
    for (int b = 0; b < most; b += kStretch) {
      for (int i = first; i < last; ++i) {
        if (chooses(i)) score(i, b, std::min(b + kStretch, complete(i)), scores(i));
      }
    }
    for (int i = first; i < last; ++i) pick(i, t, scores(i));
  }

  // One row on all threads.
  void shared_row(int i) const {
    constexpr int kPiece = 512;  // so many blocks are worth another thread
    Carver own = shop_.of_thread(0);
    const SelectTask t = SelectTask::carve(own, complete(i));
    if (chooses(i)) {
      shop_.pool.parallel_for(complete(i), kPiece, [&](int first, int last, int) { score(i, first, last, t.scores); });
    }
    pick(i, t, t.scores);
  }

 private:
  int complete(int i) const { return (segment_.first_pos + i + 1) / w_.block_tokens; }
  bool chooses(int i) const { return complete(i) > w_.budget_blocks; }

  void score(int i, int first, int last, float* scores) const {
    const float* queries = q_.index_q.row(segment_.first_row + i);
    score_blocks(kernels_, w_, segment_.sequence->kv, ordinal_, queries, first, last, scores);
  }
  void pick(int i, const SelectTask& t, const float* scores) const {
    const int row = segment_.first_row + i;
    out_.count[row] = chooses(i) ? w_.budget_blocks : Selection::kAll;
    if (chooses(i)) pick_blocks(kernels_, t, scores, complete(i), w_.budget_blocks, out_.of(row));
  }

  const Workshop& shop_;
  const MixerKernels& kernels_;
  const QsaWeights& w_;
  const int ordinal_;
  const Queries& q_;
  const Segment& segment_;
  const Selection& out_;
};

}  // namespace

void CpuOps::select_blocks(const QsaWeights& w, int ordinal, const Queries& q, std::span<const Segment> segments,
                           Selection out) {
  for (const Segment& segment : segments) {
    if (!has_indexer(w)) {
      std::fill_n(out.count + segment.first_row, segment.n_rows, Selection::kAll);
      continue;
    }
    CHECK(out.capacity >= w.budget_blocks || (segment.first_pos + segment.n_rows) / w.block_tokens <= w.budget_blocks,
          "room for {} of {} blocks", out.capacity, w.budget_blocks);
    const SelectRun run(shop_, w, ordinal, q, segment, out);
    // Some rows per task, or, with fewer rows than threads, the blocks of one row after the other on all threads.
    if (segment.n_rows >= shop_.pool.n_threads()) {
      const int grain = std::clamp(segment.n_rows / shop_.pool.n_threads(), 1, SelectTask::kRows);
      shop_.pool.parallel_for(segment.n_rows, grain,
                              [&](int first, int last, int thread) { run.rows(first, last, thread); });
    } else {
      for (int i = 0; i < segment.n_rows; ++i) run.shared_row(i);
    }
  }
}

}  // namespace strata
