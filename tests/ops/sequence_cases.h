// Properties that every operation with memory shares: windows with partial commits, dropped steps, prompts in pieces,
// batches of several sequences. Written once over a model M:
//   M::width                       columns of the output
//   M::shape()                     what a sequence of this model remembers
//   M::run(ops, segments, ids, out)  the operation for a batch; ids name the inputs of the rows
//   M::spec() -> object with step(id, position) -> Vec of the width
#pragma once

#include "ops/op_case.h"

namespace strata::test {

// The input of the right token at a position of a sequence, and of one that will be rejected.
inline uint64_t token_at(int sequence, Pos p) {
  return static_cast<uint64_t>(sequence) * 100000 + static_cast<uint64_t>(p);
}
inline uint64_t wrong_token(Rng& rng) {
  return (uint64_t{1} << 40) + rng.next() % 100000;
}

// Runs rows as one step of one sequence, at the end of which nothing is committed yet.
template <class M>
void run_rows(Ops& ops, const M& m, TestSequence& sequence, RowRole role, const std::vector<uint64_t>& ids,
              MatF32 out) {
  const Segment segment = sequence.segment(0, static_cast<int>(ids.size()), role);
  m.run(ops, {&segment, 1}, ids, out);
}

// Outputs of n tokens of sequence `index`, decoded one by one.
template <class M>
std::unique_ptr<Mat> decode_serially(Ops& ops, const M& m, int index, int n) {
  TestSequence sequence(m.shape());
  auto out = std::make_unique<Mat>(n, m.width);
  for (Pos p = 0; p < n; ++p) {
    run_rows(ops, m, sequence, RowRole::generated, {token_at(index, p)}, out->mat().rows_from(p, 1));
    sequence.commit(RowRole::generated, 1, 1);
  }
  return out;
}

// Decodes the positions up to `end`, and compares with serial decoding bit for bit.
template <class M>
void continue_serially(Ops& ops, const M& m, TestSequence& sequence, int index, Pos end, const Mat& want,
                       const std::string& what) {
  Mat out(1, m.width);
  while (sequence.length() < end) {
    const Pos p = sequence.length();
    run_rows(ops, m, sequence, RowRole::generated, {token_at(index, p)}, out);
    sequence.commit(RowRole::generated, 1, 1);
    expect_same_bits(out.row(0), want.row(p), m.width, fmt::format("{}, position {}", what, p));
  }
}

template <class M>
void decoding_meets_the_spec(Ops& ops, const M& m, const Tolerance& tolerance, int n) {
  const auto out = decode_serially(ops, m, 0, n);
  auto spec = m.spec();
  for (Pos p = 0; p < n; ++p) {
    expect_near(out->row(p), spec.step(token_at(0, p), p), m.tolerance(tolerance),
                fmt::format("decoded position {}", p));
  }
  EXPECT_TRUE(out->padding_untouched());
}

// Windows of 1 to 8 rows of which a prefix is right give the bits of decoding without them.
template <class M>
void windows_equal_decoding(Ops& ops, const M& m, int n) {
  const auto want = decode_serially(ops, m, 0, n + kMaxWindow);
  Rng rng(21);
  for (int trial = 0; trial < 4; ++trial) {
    TestSequence sequence(m.shape());
    Mat out(kMaxWindow, m.width);
    while (sequence.length() < n) {
      const int rows = 1 + rng.below(kMaxWindow), keep = rng.below(rows + 1);
      std::vector<uint64_t> ids;
      for (int i = 0; i < rows; ++i) ids.push_back(i < keep ? token_at(0, sequence.length() + i) : wrong_token(rng));
      run_rows(ops, m, sequence, RowRole::generated, ids, out);
      for (int i = 0; i < keep; ++i) {
        expect_same_bits(out.row(i), want->row(sequence.length() + i), m.width,
                         fmt::format("position {}, row {} of a window of {}", sequence.length() + i, i, rows));
      }
      sequence.commit(RowRole::generated, rows, keep);
    }
  }
}

// A prompt in pieces of any size, then decoding.
template <class M>
void prompts_meet_the_spec(Ops& ops, const M& m, const Tolerance& tolerance, int n) {
  const auto serial = decode_serially(ops, m, 0, n + 3);
  for (const int piece : {1, 2, 7, 64, 65, n}) {
    TestSequence sequence(m.shape());
    auto spec = m.spec();
    Mat out(piece, m.width);
    while (sequence.length() < n + 3) {
      const Pos first = sequence.length();
      const RowRole role = first < n ? RowRole::prompt : RowRole::generated;
      const int rows = role == RowRole::prompt ? std::min(piece, n - first) : 1;
      std::vector<uint64_t> ids;
      for (int i = 0; i < rows; ++i) ids.push_back(token_at(0, first + i));
      run_rows(ops, m, sequence, role, ids, out);
      sequence.commit(role, rows, rows);
      for (int i = 0; i < rows; ++i) {
        const std::string what = fmt::format("position {} of a prompt in pieces of {}", first + i, piece);
        expect_near(out.row(i), spec.step(token_at(0, first + i), first + i), m.tolerance(tolerance), what);
        if (tolerance.prompt_equals_decode) expect_same_bits(out.row(i), serial->row(first + i), m.width, what);
      }
    }
  }
}

// A chunk or a window that is dropped leaves no trace, whatever was kept of the window before it.
template <class M>
void dropped_steps_leave_no_trace(Ops& ops, const M& m) {
  const int n = 40;
  const auto want = decode_serially(ops, m, 0, n);
  Rng rng(22);
  for (const RowRole role : {RowRole::prompt, RowRole::generated}) {
    for (int keep = 0; keep <= kMaxWindow; ++keep) {
      TestSequence sequence(m.shape());
      continue_serially(ops, m, sequence, 0, 14, *want, "before");
      Mat out(100, m.width);
      std::vector<uint64_t> window;
      for (int i = 0; i < kMaxWindow; ++i) window.push_back(i < keep ? token_at(0, 14 + i) : wrong_token(rng));
      run_rows(ops, m, sequence, RowRole::generated, window, out);
      sequence.commit(RowRole::generated, kMaxWindow, keep);
      std::vector<uint64_t> wrong(role == RowRole::prompt ? 100 : kMaxWindow);
      for (uint64_t& id : wrong) id = wrong_token(rng);
      run_rows(ops, m, sequence, role, wrong, out);
      sequence.commit(role, static_cast<int>(wrong.size()), 0);
      continue_serially(ops, m, sequence, 0, n, *want, fmt::format("after dropping, {} rows kept before", keep));
    }
  }
}

// Several sequences of different lengths in one batch: each gets the bits it gets alone. Roles may mix where the
// operation takes its role from the segment.
template <class M>
void sequences_do_not_meet_in_a_batch(Ops& ops, const M& m, bool mixed_roles) {
  constexpr int kSequences = 4;
  std::vector<std::unique_ptr<TestSequence>> together, alone;
  for (int s = 0; s < kSequences; ++s) {
    together.push_back(std::make_unique<TestSequence>(m.shape()));
    alone.push_back(std::make_unique<TestSequence>(m.shape()));
  }
  Rng rng(23);
  for (int step = 0; step < 10; ++step) {
    std::vector<Segment> segments;
    std::vector<uint64_t> ids;
    std::vector<int> keep;
    for (int s = kSequences - 1; s >= 0; --s) {
      const RowRole role = (mixed_roles ? s + step : step) % 3 == 0 ? RowRole::prompt : RowRole::generated;
      const int rows = 1 + rng.below(role == RowRole::prompt ? 11 : kMaxWindow);
      segments.push_back(together[static_cast<size_t>(s)]->segment(static_cast<int>(ids.size()), rows, role));
      keep.push_back(role == RowRole::prompt ? rows : rng.below(rows + 1));
      for (int i = 0; i < rows; ++i) ids.push_back(token_at(s, segments.back().first_pos + i));
    }
    Mat out(static_cast<int>(ids.size()), m.width);
    m.run(ops, segments, ids, out);
    for (size_t i = 0; i < segments.size(); ++i) {
      const Segment& segment = segments[i];
      const size_t s = kSequences - 1 - i;
      Mat own(segment.n_rows, m.width);
      const auto first = ids.begin() + segment.first_row;
      run_rows(ops, m, *alone[s], segment.role, std::vector<uint64_t>(first, first + segment.n_rows), own);
      for (int r = 0; r < segment.n_rows; ++r) {
        expect_same_bits(out.row(segment.first_row + r), own.row(r), m.width,
                         fmt::format("step {} sequence {} row {}", step, s, r));
      }
      together[s]->commit(segment.role, segment.n_rows, keep[i]);
      alone[s]->commit(segment.role, segment.n_rows, keep[i]);
    }
  }
}

}  // namespace strata::test
