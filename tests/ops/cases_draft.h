// Cases of draft_inputs.
#pragma once

#include "ops/op_case.h"
#include "ops/spec.h"

namespace strata::test {

struct DraftModel {
  static constexpr int kVocab = 40;
  std::vector<float> embed_norm, hidden_norm;
  TestWeight embed;
  DraftWeights w;

  DraftModel(int streams, int d_model, DType type) {
    Rng rng(77);
    embed_norm = rng.normals(d_model, 0.2f, 1.0f);
    hidden_norm = rng.normals(streams * d_model, 0.2f, 1.0f);
    embed = TestWeight(rng, type, kVocab, d_model, 0.7f);
    w.embed = embed.w(), w.embed_norm = embed_norm.data(), w.hidden_norm = hidden_norm.data();
    w.streams = streams, w.d_model = d_model, w.eps = 1e-6f;
  }
  DraftModel(const DraftModel&) = delete;
  DraftModel& operator=(const DraftModel&) = delete;
};

struct DraftShape {
  int streams, d_model;
  DType type;
};
inline constexpr DraftShape kDraftShapes[] = {
    {1, 8, DType::F32}, {4, 20, DType::F16}, {2, 64, DType::Q8_0}, {3, 256, DType::Q6_K}};

// The embedding is normed by itself, the residual by one root mean square over all its streams.
inline void draft_inputs_meet_the_spec(Ops& ops, const Tolerance& tolerance) {
  for (const DraftShape& s : kDraftShapes) {
    const DraftModel m(s.streams, s.d_model, s.type);
    const int d = s.d_model, wide_width = s.streams * d;
    for (const int rows : {1, 2, 7, 33}) {
      Rng rng(static_cast<uint64_t>(rows));
      Mat wide(rows, wide_width), out(rows * s.streams, 2 * d), alone(s.streams, 2 * d);
      std::vector<TokenId> next;
      for (int r = 0; r < rows; ++r) {
        const auto values = rng.normals(wide_width, r % 3 == 0 ? 1e-4f : 30.0f);
        std::copy(values.begin(), values.end(), wide.row(r));
        next.emplace_back(rng.below(DraftModel::kVocab));
      }
      ops.draft_inputs(m.w, next, wide, out);
      for (int r = 0; r < rows; ++r) {
        const Vec embedding = spec_rms(m.embed.row(next[static_cast<size_t>(r)].v), m.embed_norm.data(), 1e-6);
        const Vec hidden = spec_rms(wide.vec(r), m.hidden_norm.data(), 1e-6);
        for (int i = 0; i < s.streams; ++i) {
          Vec want = embedding;
          want.insert(want.end(), hidden.begin() + i * d, hidden.begin() + (i + 1) * d);
          expect_near(out.row(r * s.streams + i), want, tolerance.f32,
                      fmt::format("row {} stream {} of {} x {}", r, i, s.streams, d));
        }
        ops.draft_inputs(m.w, std::span(&next[static_cast<size_t>(r)], 1), MatF32(wide.row(r), 1, wide_width), alone);
        expect_same_bits(alone.row(0), out.row(r * s.streams), s.streams * 2 * d, fmt::format("row {} alone", r));
      }
    }
  }
}

inline std::vector<OpCase> draft_cases() {
  return {{"DraftInputsMeetTheSpec", draft_inputs_meet_the_spec}};
}

}  // namespace strata::test
