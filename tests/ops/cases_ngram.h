// Cases of ngram_inject.
#pragma once

#include "ops/sequence_cases.h"
#include "ops/spec.h"

namespace strata::test {

struct PleShape {
  int streams, d_model, heads, row_width, conv_kernel, dilation;
  DType table, matrices;
};
inline constexpr PleShape kPleShapes[] = {
    {1, 8, 1, 8, 4, 3, DType::F32, DType::F32},
    {4, 20, 2, 32, 4, 3, DType::IQ4_NL, DType::BF16},
    {2, 64, 4, 32, 3, 2, DType::Q8_0, DType::Q8_0},
    {4, 32, 8, 32, 2, 1, DType::IQ4_NL, DType::F16},
};

struct PleModel {
  static constexpr int kTableRows = 300;
  std::vector<float> norm_key, norm_query, norm_conv, conv;
  TestWeight table, key, value;
  PleWeights w;
  PleShape s;
  int width = 0;

  explicit PleModel(const PleShape& shape, uint64_t seed = 51) : s(shape) {
    Rng rng(seed);
    width = s.streams * s.d_model;
    norm_key = rng.normals(width, 0.2f, 1.0f);
    norm_query = rng.normals(width, 0.2f, 1.0f);
    norm_conv = rng.normals(width, 0.2f, 1.0f);
    conv = rng.normals(width * s.conv_kernel, 0.4f);
    table = TestWeight(rng, s.table, kTableRows, s.row_width, 0.5f);
    key = TestWeight(rng, s.matrices, width, s.heads * s.row_width, 0.1f);
    value = TestWeight(rng, s.matrices, s.d_model, s.heads * s.row_width, 0.1f);
    w = {key.w(),     value.w(), norm_key.data(), norm_query.data(), norm_conv.data(),
         conv.data(), s.streams, s.d_model,       s.conv_kernel,     s.dilation,
         1e-6f};
  }
  PleModel(const PleModel&) = delete;
  PleModel& operator=(const PleModel&) = delete;

  struct Row {
    std::vector<float> streams;
    std::vector<uint64_t> ids;
  };
  Row row(uint64_t id) const {
    Rng rng(id * 5 + 3);
    Row r{rng.normals(width, 1.0f), {}};
    for (int h = 0; h < s.heads; ++h) r.ids.push_back(static_cast<uint64_t>(rng.below(kTableRows)));
    return r;
  }

  double tolerance(const Tolerance& t) const { return t.products; }
  SequenceShape shape() const {
    SequenceShape out;
    out.ple = &w;
    return out;
  }
  void run(Ops& ops, std::span<const Segment> segments, const std::vector<uint64_t>& ids, MatF32 out) const {
    std::vector<uint64_t> rows;
    for (size_t r = 0; r < ids.size(); ++r) {
      const Row from = row(ids[r]);
      std::copy(from.streams.begin(), from.streams.end(), out.row(static_cast<int>(r)));
      rows.insert(rows.end(), from.ids.begin(), from.ids.end());
    }
    ops.ngram_inject(w, {table.w(), rows.data(), s.heads}, segments, out.rows_from(0, static_cast<int>(ids.size())),
                     segments[0].role);
  }

  struct Spec : SpecPle {
    const PleModel& m;
    explicit Spec(const PleModel& model) : SpecPle{model.w, model.key, model.value, {}}, m(model) {}
    Vec step(uint64_t id, Pos) {
      const Row r = m.row(id);
      Vec looked_up;
      for (const uint64_t i : r.ids) {
        const Vec part = m.table.row(static_cast<int>(i));
        looked_up.insert(looked_up.end(), part.begin(), part.end());
      }
      return SpecPle::step(Vec(r.streams.begin(), r.streams.end()), looked_up);
    }
  };
  Spec spec() const { return Spec(*this); }
};

inline void ngram_decoding_meets_the_spec(Ops& ops, const Tolerance& tolerance) {
  for (const PleShape& s : kPleShapes) decoding_meets_the_spec(ops, PleModel(s), tolerance, 40);
}

inline void ngram_windows_equal_decoding(Ops& ops, const Tolerance&) {
  for (const PleShape& s : kPleShapes) windows_equal_decoding(ops, PleModel(s), 50);
}

inline void ngram_prompts_meet_the_spec(Ops& ops, const Tolerance& tolerance) {
  for (const PleShape& s : kPleShapes) prompts_meet_the_spec(ops, PleModel(s), tolerance, 80);
}

inline void ngram_dropped_steps_leave_no_trace(Ops& ops, const Tolerance&) {
  for (const PleShape& s : kPleShapes) dropped_steps_leave_no_trace(ops, PleModel(s));
}

inline void ngram_sequences_do_not_meet_in_a_batch(Ops& ops, const Tolerance&) {
  for (const PleShape& s : kPleShapes) sequences_do_not_meet_in_a_batch(ops, PleModel(s), false);
}

inline void settling_the_ngram_layer_changes_nothing(Ops& ops, const Tolerance&) {
  const PleModel m(kPleShapes[1]);
  const auto want = decode_serially(ops, m, 0, 40);
  for (int keep = 0; keep <= kMaxWindow; ++keep) {
    TestSequence sequence(m.shape());
    continue_serially(ops, m, sequence, 0, 5, *want, "before");
    Mat out(kMaxWindow, m.width);
    std::vector<uint64_t> ids;
    for (int i = 0; i < kMaxWindow; ++i) ids.push_back(token_at(0, 5 + i));
    run_rows(ops, m, sequence, RowRole::generated, ids, out);
    sequence.commit(RowRole::generated, kMaxWindow, keep);
    ops.settle({}, sequence.view());
    sequence.view().kept_rows = 0;
    continue_serially(ops, m, sequence, 0, 40, *want, fmt::format("settled after {} rows", keep));
  }
}

// A stream at right angles to its key is gated by one half: half of the value, and the convolution of its norm.
inline void a_key_that_does_not_fit_gates_by_one_half(Ops& ops, const Tolerance& tolerance) {
  const PleModel m(kPleShapes[0]);
  TestSequence sequence(m.shape());
  const Segment segment = sequence.segment(0, 1, RowRole::generated);
  const uint64_t id = 17;
  Mat streams(1, m.width, 0);
  std::fill_n(streams.row(0), m.width, 0.0f);
  ops.ngram_inject(m.w, {m.table.w(), &id, 1}, {&segment, 1}, streams, RowRole::generated);
  Vec want = m.value.times(m.table.row(17));
  for (double& x : want) x /= 2;
  const Vec normed = spec_rms(want, m.w.norm_conv, 1e-6);
  for (size_t c = 0; c < want.size(); ++c) {
    want[c] +=
        spec_silu(static_cast<double>(
                      m.conv[c * static_cast<size_t>(m.s.conv_kernel) + static_cast<size_t>(m.s.conv_kernel) - 1]) *
                  normed[c]);
  }
  expect_near(streams.row(0), want, tolerance.products, "streams that were zero");
}

// Below one millionth the root is held at one thousandth, of either sign.
inline void a_faint_fit_is_clamped(Ops& ops, const Tolerance& tolerance) {
  const PleModel m(kPleShapes[2]);
  const PleModel::Row row = m.row(9);
  for (const float sign : {1.0f, -1.0f}) {
    TestSequence sequence(m.shape());
    const Segment segment = sequence.segment(0, 1, RowRole::generated);
    Mat streams(1, m.width);
    for (int c = 0; c < m.width; ++c) streams.row(0)[c] = sign * 1e-12f * row.streams[static_cast<size_t>(c)];
    Vec looked_up;
    for (const uint64_t id : row.ids) {
      const Vec part = m.table.row(static_cast<int>(id));
      looked_up.insert(looked_up.end(), part.begin(), part.end());
    }
    SpecPle spec{m.w, m.key, m.value, {}};
    const Vec want = spec.step(streams.vec(0), looked_up);
    ops.ngram_inject(m.w, {m.table.w(), row.ids.data(), m.s.heads}, {&segment, 1}, streams, RowRole::generated);
    expect_near(streams.row(0), want, tolerance.products, fmt::format("sign {}", sign));
  }
}

inline std::vector<OpCase> ngram_cases() {
  return {
      {"NgramDecodingMeetsTheSpec", ngram_decoding_meets_the_spec},
      {"NgramWindowsEqualDecoding", ngram_windows_equal_decoding},
      {"NgramPromptsMeetTheSpec", ngram_prompts_meet_the_spec},
      {"NgramDroppedStepsLeaveNoTrace", ngram_dropped_steps_leave_no_trace},
      {"NgramSequencesDoNotMeetInABatch", ngram_sequences_do_not_meet_in_a_batch},
      {"SettlingTheNgramLayerChangesNothing", settling_the_ngram_layer_changes_nothing},
      {"AKeyThatDoesNotFitGatesByOneHalf", a_key_that_does_not_fit_gates_by_one_half},
      {"AFaintFitIsClamped", a_faint_fit_is_clamped},
  };
}

}  // namespace strata::test
