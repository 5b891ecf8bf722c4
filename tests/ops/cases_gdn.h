// Cases of gdn_mix and settle.
#pragma once

#include "ops/sequence_cases.h"
#include "ops/spec.h"

namespace strata::test {

struct GdnShape {
  int k_heads, v_heads, k_dim, v_dim, conv_kernel;
};
inline constexpr GdnShape kGdnShapes[] = {
    {1, 1, 8, 8, 4}, {2, 4, 16, 16, 4}, {2, 6, 12, 20, 3}, {1, 3, 32, 32, 2}, {2, 4, 64, 64, 4}};

struct GdnModel {
  std::vector<float> conv, dt_bias, a, norm;
  GdnWeights w;
  int width = 0;

  explicit GdnModel(const GdnShape& s, uint64_t seed = 31) {
    Rng rng(seed);
    w.k_heads = s.k_heads;
    w.v_heads = s.v_heads;
    w.k_dim = s.k_dim;
    w.v_dim = s.v_dim;
    w.conv_kernel = s.conv_kernel;
    w.eps = 1e-6f;
    conv = rng.normals(w.channels() * s.conv_kernel, 0.5f);
    dt_bias = rng.normals(s.v_heads, 1.0f);
    for (int h = 0; h < s.v_heads; ++h) a.push_back(-0.02f - 0.3f * static_cast<float>(rng.uniform()));
    norm = rng.normals(s.v_dim, 0.2f, 1.0f);
    w.conv = conv.data();
    w.dt_bias = dt_bias.data();
    w.a = a.data();
    w.norm = norm.data();
    width = w.value_width();
  }
  GdnModel(const GdnModel&) = delete;
  GdnModel& operator=(const GdnModel&) = delete;

  struct Row {
    std::vector<float> qkv, gate, beta, alpha;
  };
  // Now and then softplus and the sigmoids are driven into their ends.
  Row row(uint64_t id) const {
    Rng rng(id * 7 + 1);
    const float reach = id % 11 == 0 ? 25.0f : 1.5f;
    Row r{rng.normals(w.channels(), 1.0f), rng.normals(width, reach), rng.normals(w.v_heads, reach),
          rng.normals(w.v_heads, reach)};
    return r;
  }

  double tolerance(const Tolerance& t) const { return t.f32; }
  SequenceShape shape() const {
    SequenceShape s;
    s.gdn = {&w, &w};
    return s;
  }
  // Two layers of the same weights: the second sees other inputs, and its memory must be its own.
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
    Mat qkv(n, w.channels()), gate(n, width), beta(n, w.v_heads), alpha(n, w.v_heads);
    for (int r = 0; r < n; ++r) {
      const Row from = row(ids[static_cast<size_t>(r)]);
      std::copy(from.qkv.begin(), from.qkv.end(), qkv.row(r));
      std::copy(from.gate.begin(), from.gate.end(), gate.row(r));
      std::copy(from.beta.begin(), from.beta.end(), beta.row(r));
      std::copy(from.alpha.begin(), from.alpha.end(), alpha.row(r));
    }
    ops.gdn_mix(w, ordinal, {qkv, gate, beta, alpha}, segments, out.rows_from(0, n));
  }
  struct Spec : SpecGdn {
    const GdnModel& m;
    explicit Spec(const GdnModel& model) : SpecGdn(model.w), m(model) {}
    Vec step(uint64_t id, Pos) {
      const Row r = m.row(id);
      return SpecGdn::step(Vec(r.qkv.begin(), r.qkv.end()), Vec(r.gate.begin(), r.gate.end()),
                           Vec(r.beta.begin(), r.beta.end()), Vec(r.alpha.begin(), r.alpha.end()));
    }
  };
  Spec spec() const { return Spec(*this); }
};

inline void gdn_decoding_meets_the_spec(Ops& ops, const Tolerance& tolerance) {
  for (const GdnShape& s : kGdnShapes) decoding_meets_the_spec(ops, GdnModel(s), tolerance, 60);
}

inline void gdn_windows_equal_decoding(Ops& ops, const Tolerance&) {
  for (const GdnShape& s : kGdnShapes) windows_equal_decoding(ops, GdnModel(s), 50);
}

inline void gdn_prompts_meet_the_spec(Ops& ops, const Tolerance& tolerance) {
  for (const GdnShape& s : kGdnShapes) prompts_meet_the_spec(ops, GdnModel(s), tolerance, 140);
}

inline void gdn_dropped_steps_leave_no_trace(Ops& ops, const Tolerance&) {
  dropped_steps_leave_no_trace(ops, GdnModel(kGdnShapes[1]));
  dropped_steps_leave_no_trace(ops, GdnModel(kGdnShapes[2]));
}

inline void gdn_sequences_do_not_meet_in_a_batch(Ops& ops, const Tolerance&) {
  for (const GdnShape& s : kGdnShapes) sequences_do_not_meet_in_a_batch(ops, GdnModel(s), true);
}

inline void settling_at_any_time_changes_nothing(Ops& ops, const Tolerance&) {
  const GdnModel m(kGdnShapes[2]);
  const auto want = decode_serially(ops, m, 0, 40);
  const std::vector<const GdnWeights*> layers = {&m.w, &m.w};
  for (int keep = 0; keep <= kMaxWindow; ++keep) {
    TestSequence sequence(m.shape());
    Mat out(kMaxWindow, m.width);
    std::vector<uint64_t> ids;
    for (int i = 0; i < kMaxWindow; ++i) ids.push_back(token_at(0, i));
    run_rows(ops, m, sequence, RowRole::generated, ids, out);
    sequence.commit(RowRole::generated, kMaxWindow, keep);
    ops.settle(layers, sequence.view());
    sequence.view().kept_rows = 0;
    ops.settle(layers, sequence.view());  // nothing is left to bring in
    continue_serially(ops, m, sequence, 0, 40, *want, fmt::format("settled after {} rows", keep));
  }
}

inline std::vector<OpCase> gdn_cases() {
  return {
      {"GdnDecodingMeetsTheSpec", gdn_decoding_meets_the_spec},
      {"GdnWindowsEqualDecoding", gdn_windows_equal_decoding},
      {"GdnPromptsMeetTheSpec", gdn_prompts_meet_the_spec},
      {"GdnDroppedStepsLeaveNoTrace", gdn_dropped_steps_leave_no_trace},
      {"GdnSequencesDoNotMeetInABatch", gdn_sequences_do_not_meet_in_a_batch},
      {"SettlingAtAnyTimeChangesNothing", settling_at_any_time_changes_nothing},
  };
}

}  // namespace strata::test
