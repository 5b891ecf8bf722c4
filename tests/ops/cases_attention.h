// Cases of attention_prepare, select_blocks and sparse_attention.
#pragma once

#include "ops/sequence_cases.h"
#include "ops/spec.h"

namespace strata::test {

struct QsaShape {
  int heads, kv_heads, dim, rotated_pairs, index_heads, index_dim, block_tokens, budget_blocks;
  KvFormat format;
  bool image;  // positions whose axes differ
};
inline constexpr QsaShape kQsaShapes[] = {
    {1, 1, 8, 4, 0, 0, 0, 0, KvFormat::f32, false},    // dense
    {6, 2, 20, 5, 0, 0, 0, 0, KvFormat::f16, true},    // dense
    {4, 2, 16, 4, 2, 12, 4, 3, KvFormat::f32, false},  // selects from the 16th token on
    {4, 1, 24, 6, 4, 32, 4, 5, KvFormat::f16, true},  {3, 3, 16, 8, 1, 16, 2, 8, KvFormat::f32, true},
};

struct QsaModel {
  std::vector<float> q_norm, k_norm, index_q_norm, index_k_norm;
  QsaWeights w;
  QsaShape s;
  int width = 0;

  explicit QsaModel(const QsaShape& shape, uint64_t seed = 41) : s(shape) {
    Rng rng(seed);
    w.heads = s.heads;
    w.kv_heads = s.kv_heads;
    w.head_dim = w.value_dim = s.dim;
    w.index_heads = s.index_heads;
    w.index_dim = s.index_dim;
    w.block_tokens = s.block_tokens;
    w.budget_blocks = s.budget_blocks;
    w.scale = 1.0f / std::sqrt(static_cast<float>(s.dim));
    w.eps = 1e-6f;
    for (int i = 0; i < s.rotated_pairs; ++i) {
      w.rope.inv_freq.push_back(std::pow(1000.0f, -static_cast<float>(i) / static_cast<float>(s.rotated_pairs)));
      w.rope.axis.push_back(static_cast<uint8_t>(i % 3));
    }
    q_norm = rng.normals(s.dim, 0.2f, 1.2f);
    k_norm = rng.normals(s.dim, 0.2f, 1.2f);
    index_q_norm = rng.normals(s.index_dim, 0.2f, 1.0f);
    index_k_norm = rng.normals(s.index_dim, 0.2f, 1.0f);
    w.q_norm = q_norm.data();
    w.k_norm = k_norm.data();
    w.index_q_norm = index_q_norm.data();
    w.index_k_norm = index_k_norm.data();
    width = s.heads * s.dim;
  }
  QsaModel(const QsaModel&) = delete;
  QsaModel& operator=(const QsaModel&) = delete;

  struct Row {
    std::vector<float> q, k, v, index_q, index_k;
  };
  Row row(uint64_t id) const {
    Rng rng(id * 3 + 2);
    return {rng.normals(s.heads * 2 * s.dim, 1.0f), rng.normals(s.kv_heads * s.dim, 1.0f),
            rng.normals(s.kv_heads * s.dim, 1.0f), rng.normals(s.index_heads * s.index_dim, 1.0f),
            rng.normals(s.index_dim, 1.0f)};
  }
  Pos3 position(Pos p) const { return s.image ? Pos3{p / 3 * 3, p % 5 + p / 4, 2 * p} : Pos3{p, p, p}; }

  double tolerance(const Tolerance& t) const { return t.f32; }
  SequenceShape shape() const {
    SequenceShape out;
    out.qsa = {&w, &w};
    out.format = s.format;
    return out;
  }
  // Two layers with other inputs: neither may touch the other's part of a page.
  void run(Ops& ops, std::span<const Segment> segments, const std::vector<uint64_t>& ids, MatF32 out) const {
    run_layer(ops, 0, segments, ids, out);
    Mat other(out.rows, width);
    std::vector<uint64_t> other_ids = ids;
    for (uint64_t& id : other_ids) id += 5000;
    run_layer(ops, 1, segments, other_ids, other);
  }
  void run_layer(Ops& ops, int ordinal, std::span<const Segment> segments, const std::vector<uint64_t>& ids,
                 MatF32 out) const {
    const int n = static_cast<int>(ids.size());
    Mat q(n, s.heads * 2 * s.dim), k(n, s.kv_heads * s.dim), v(n, s.kv_heads * s.dim);
    Mat index_q(n, s.index_heads * s.index_dim), index_k(n, s.index_dim);
    for (int r = 0; r < n; ++r) {
      const Row from = row(ids[static_cast<size_t>(r)]);
      std::copy(from.q.begin(), from.q.end(), q.row(r));
      std::copy(from.k.begin(), from.k.end(), k.row(r));
      std::copy(from.v.begin(), from.v.end(), v.row(r));
      std::copy(from.index_q.begin(), from.index_q.end(), index_q.row(r));
      std::copy(from.index_k.begin(), from.index_k.end(), index_k.row(r));
    }
    std::vector<Pos3> positions(ids.size());
    for (const Segment& segment : segments) {
      for (int i = 0; i < segment.n_rows; ++i)
        positions[static_cast<size_t>(segment.first_row + i)] = position(segment.first_pos + i);
    }
    const bool indexed = s.budget_blocks > 0;
    const QsaInputs in{q, k, v, indexed ? index_q.mat() : MatF32{}, indexed ? index_k.mat() : MatF32{}};
    Mat queries(n, width), gate(n, width), index_queries(n, s.index_heads * s.index_dim);
    const Queries prepared{queries, gate, indexed ? index_queries.mat() : MatF32{}};
    std::vector<int32_t> blocks(ids.size() * static_cast<size_t>(s.budget_blocks + 2)), count(ids.size());
    const Selection selection{blocks.data(), count.data(), s.budget_blocks + 2};
    ops.attention_prepare(w, ordinal, in, positions, segments, prepared);
    ops.select_blocks(w, ordinal, prepared, segments, selection);
    ops.sparse_attention(w, ordinal, prepared, selection, segments, out.rows_from(0, n));
  }

  struct Spec : SpecQsa {
    const QsaModel& m;
    explicit Spec(const QsaModel& model) : SpecQsa{model.w, model.s.format, {}, {}, {}, {}}, m(model) {}
    Vec step(uint64_t id, Pos p) {
      const Row r = m.row(id);
      const auto vec = [](const std::vector<float>& x) { return Vec(x.begin(), x.end()); };
      return SpecQsa::step(vec(r.q), vec(r.k), vec(r.v), vec(r.index_q), vec(r.index_k), m.position(p));
    }
  };
  Spec spec() const { return Spec(*this); }
};

inline void attention_decoding_meets_the_spec(Ops& ops, const Tolerance& tolerance) {
  for (const QsaShape& s : kQsaShapes) decoding_meets_the_spec(ops, QsaModel(s), tolerance, 2 * kPageTokens + 5);
}

inline void attention_windows_equal_decoding(Ops& ops, const Tolerance&) {
  for (const QsaShape& s : kQsaShapes) windows_equal_decoding(ops, QsaModel(s), 70);
}

inline void attention_prompts_meet_the_spec(Ops& ops, const Tolerance& tolerance) {
  for (const QsaShape& s : kQsaShapes) prompts_meet_the_spec(ops, QsaModel(s), tolerance, 140);
}

inline void attention_dropped_steps_leave_no_trace(Ops& ops, const Tolerance&) {
  for (const QsaShape& s : kQsaShapes) dropped_steps_leave_no_trace(ops, QsaModel(s));
}

inline void attention_sequences_do_not_meet_in_a_batch(Ops& ops, const Tolerance&) {
  for (const QsaShape& s : kQsaShapes) sequences_do_not_meet_in_a_batch(ops, QsaModel(s), true);
}

// Blocks that windows with rejected rows completed, reopened and completed again.
inline void block_keys_come_from_the_committed_tokens(Ops& ops, const Tolerance& tolerance) {
  const QsaModel m(kQsaShapes[3]);
  TestSequence sequence(m.shape());
  auto spec = m.spec();
  Rng rng(42);
  Mat out(kMaxWindow, m.width);
  while (sequence.length() < 90) {
    const int rows = 1 + rng.below(kMaxWindow), keep = rng.below(rows + 1);
    std::vector<uint64_t> ids;
    for (int i = 0; i < rows; ++i) ids.push_back(i < keep ? token_at(0, sequence.length() + i) : wrong_token(rng));
    run_rows(ops, m, sequence, RowRole::generated, ids, out);
    for (int i = 0; i < keep; ++i) spec.step(ids[static_cast<size_t>(i)], sequence.length() + i);
    sequence.commit(RowRole::generated, rows, keep);
    for (int b = 0; b < sequence.length() / m.w.block_tokens; ++b) {
      expect_near(sequence.view().kv.block_key(0, b), spec.block_key(b), tolerance.f32,
                  fmt::format("key of block {}", b));
    }
  }
}

// select_blocks alone: keys [value, 0 ...] are written into the pages, the query is [1, 0 ...] in every head.
struct ScoredBlocks {
  QsaModel m{kQsaShapes[2]};
  TestSequence sequence{m.shape()};
  Mat index_q{1, m.s.index_heads* m.s.index_dim};

  explicit ScoredBlocks(const std::vector<float>& keys) {
    for (size_t b = 0; b < keys.size(); ++b) {
      float* key = sequence.view().kv.block_key(0, static_cast<int>(b));
      std::fill_n(key, m.s.index_dim, 0.0f);
      key[0] = keys[b];
    }
    for (int i = 0; i < m.s.index_heads * m.s.index_dim; ++i) index_q.row(0)[i] = i % m.s.index_dim == 0 ? 1.0f : 0.0f;
  }
  // The selection of a row at position p; {-1} for kAll.
  std::vector<int> at(Ops& ops, Pos p) {
    const Segment segment{&sequence.view(), 0, 1, p, RowRole::generated};
    std::vector<int32_t> blocks(16, -7);
    int32_t count = -7;
    ops.select_blocks(m.w, 0, {{}, {}, index_q}, {&segment, 1}, {blocks.data(), &count, 16});
    if (count == Selection::kAll) return {-1};
    return std::vector<int>(blocks.begin(), blocks.begin() + count);
  }
};

inline void selection_starts_where_the_budget_ends(Ops& ops, const Tolerance&) {
  ScoredBlocks scored({5, 1, 2, 3, 4});
  const std::vector<int> all = {-1};
  for (const Pos p : {0, 3, 4, 11, 14}) EXPECT_EQ(scored.at(ops, p), all) << p;
  for (const Pos p : {15, 16, 18}) EXPECT_EQ(scored.at(ops, p), (std::vector<int>{0, 2, 3})) << p;
  EXPECT_EQ(scored.at(ops, 19), (std::vector<int>{0, 3, 4}));
}

inline void a_row_can_lose_its_own_block(Ops& ops, const Tolerance&) {
  EXPECT_EQ(ScoredBlocks({1, 1, 1, 0.5f}).at(ops, 15), (std::vector<int>{0, 1, 2}));
}

inline void equal_scores_go_to_the_lower_block(Ops& ops, const Tolerance&) {
  EXPECT_EQ(ScoredBlocks({2, 2, 2, 2, 2, 2}).at(ops, 23), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(ScoredBlocks({1, 3, 1, 3, 1, 1}).at(ops, 23), (std::vector<int>{0, 1, 3}));
  // Negative products count as zero, so these are all equal.
  EXPECT_EQ(ScoredBlocks({-5, -1, 0, -2, -3, -0.0f}).at(ops, 23), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(ScoredBlocks({-5, -1, -4, -2, -3, 1}).at(ops, 23), (std::vector<int>{0, 1, 5}));
}

inline void a_score_that_is_no_number_ranks_last(Ops& ops, const Tolerance&) {
  EXPECT_EQ(ScoredBlocks({NAN, 0, NAN, 0, 1, 0}).at(ops, 23), (std::vector<int>{1, 3, 4}));
  EXPECT_EQ(ScoredBlocks({NAN, 2, NAN, NAN, 1, NAN}).at(ops, 23), (std::vector<int>{0, 1, 4}));
  EXPECT_EQ(ScoredBlocks({NAN, NAN, NAN, NAN}).at(ops, 15), (std::vector<int>{0, 1, 2}));
}

inline void huge_scores_do_not_overflow_the_softmax(Ops& ops, const Tolerance& tolerance) {
  const QsaModel m(kQsaShapes[0]);
  TestSequence sequence(m.shape());
  const KvView& kv = sequence.view().kv;
  const int dim = m.s.dim;
  Mat q(1, dim), gate(1, dim), out(1, dim);
  Vec want(static_cast<size_t>(dim));
  for (int i = 0; i < dim; ++i) {
    q.row(0)[i] = i == 0 ? 3000.0f : 0.0f;
    gate.row(0)[i] = static_cast<float>(i - 3);
    for (Pos p = 0; p < 3; ++p) {
      reinterpret_cast<float*>(kv.k(0, p))[i] = i == 0 ? static_cast<float>(p == 1 ? 3 : -p) : 0.0f;
      reinterpret_cast<float*>(kv.v(0, p))[i] = static_cast<float>(10 * p + i);
    }
    want[static_cast<size_t>(i)] = (10 + i) * spec_sigmoid(i - 3);
  }
  const Segment segment{&sequence.view(), 0, 1, 2, RowRole::generated};
  int32_t count = Selection::kAll;
  ops.sparse_attention(m.w, 0, {q, gate, {}}, {nullptr, &count, 0}, {&segment, 1}, out);
  expect_near(out.row(0), want, tolerance.f32, "the value of the one key that counts");
}

inline std::vector<OpCase> attention_cases() {
  return {
      {"AttentionDecodingMeetsTheSpec", attention_decoding_meets_the_spec},
      {"AttentionWindowsEqualDecoding", attention_windows_equal_decoding},
      {"AttentionPromptsMeetTheSpec", attention_prompts_meet_the_spec},
      {"AttentionDroppedStepsLeaveNoTrace", attention_dropped_steps_leave_no_trace},
      {"AttentionSequencesDoNotMeetInABatch", attention_sequences_do_not_meet_in_a_batch},
      {"HugeScoresDoNotOverflowTheSoftmax", huge_scores_do_not_overflow_the_softmax},
  };
}

inline std::vector<OpCase> indexer_cases() {
  return {
      {"BlockKeysComeFromTheCommittedTokens", block_keys_come_from_the_committed_tokens},
      {"SelectionStartsWhereTheBudgetEnds", selection_starts_where_the_budget_ends},
      {"ARowCanLoseItsOwnBlock", a_row_can_lose_its_own_block},
      {"EqualScoresGoToTheLowerBlock", equal_scores_go_to_the_lower_block},
      {"AScoreThatIsNoNumberRanksLast", a_score_that_is_no_number_ranks_last},
  };
}

}  // namespace strata::test
