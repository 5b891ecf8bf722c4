// Cases of hyper_step and hyper_flush.
#pragma once

#include "ops/op_case.h"
#include "ops/spec.h"

namespace strata::test {

struct HyperModel {
  std::vector<float> norm;
  TestWeight down, up, inject;
  HyperWeights w;

  HyperModel(Rng& rng, DType type, int streams, int d_model, int rank, bool final_read)
      : norm(rng.normals(streams * d_model, 0.2f, 1.0f)),
        down(rng, type, rank, streams * d_model, 0.05f),
        up(rng, type, streams * d_model, rank, 0.3f),
        inject(rng, type, streams, streams * d_model, 0.05f),
        w{norm.data(), down.w(), up.w(), final_read ? Weight{} : inject.w(), streams, d_model, rank, 1e-6f} {}

  // x and gains of one row of streams.
  std::pair<Vec, Vec> read(const Vec& row) const {
    Vec normed;
    for (int s = 0; s < w.streams; ++s) {
      const Vec y = spec_rms(slice(row, s * w.d_model, w.d_model), w.norm + s * w.d_model, 1e-6);
      normed.insert(normed.end(), y.begin(), y.end());
    }
    Vec low = down.times(normed);
    for (double& v : low) v = spec_silu(v / w.streams);
    const Vec mix = up.times(low);
    Vec x(static_cast<size_t>(w.d_model));
    for (size_t i = 0; i < normed.size(); ++i) x[i % x.size()] += spec_sigmoid(mix[i]) * normed[i] / w.streams;
    Vec gains = inject.times(normed);
    for (double& g : gains) g = 2 * spec_sigmoid(g / w.streams);
    return {x, gains};
  }
};

struct HyperShape {
  DType type;
  int streams, d_model, rank;
};
inline constexpr HyperShape kHyperShapes[] = {{DType::F32, 1, 8, 1},
                                              {DType::F32, 4, 24, 5},
                                              {DType::BF16, 4, 64, 32},
                                              {DType::Q8_0, 2, 64, 32},
                                              {DType::F16, 3, 20, 7}};

inline double hyper_tolerance(DType type, const Tolerance& tolerance) {
  return type == DType::F32 ? std::max(tolerance.f32, tolerance.products) : tolerance.products;
}

inline void hyper_step_reads_as_the_spec_says(Ops& ops, const Tolerance& tolerance) {
  Rng rng(11);
  for (const HyperShape& shape : kHyperShapes) {
    const HyperModel m(rng, shape.type, shape.streams, shape.d_model, shape.rank, false);
    for (const int rows : {1, 2, 7, 40}) {
      Mat streams(rows, shape.streams * shape.d_model), x(rows, shape.d_model), gains(rows, shape.streams);
      streams.fill(rng, 3.0f);
      Mat before(rows, shape.streams * shape.d_model);
      for (int r = 0; r < rows; ++r) std::copy_n(streams.row(r), shape.streams * shape.d_model, before.row(r));
      ops.hyper_step(streams, {}, m.w, {x, gains});
      for (int r = 0; r < rows; ++r) {
        const auto [want_x, want_gains] = m.read(streams.vec(r));
        expect_near(x.row(r), want_x, hyper_tolerance(shape.type, tolerance), fmt::format("x of row {}", r));
        expect_near(gains.row(r), want_gains, hyper_tolerance(shape.type, tolerance),
                    fmt::format("gains of row {}", r));
        expect_same_bits(streams.row(r), before.row(r), shape.streams * shape.d_model, "streams after a mere read");
      }
      EXPECT_TRUE(x.padding_untouched() && gains.padding_untouched() && streams.padding_untouched());
    }
  }
}

inline void hyper_step_writes_before_it_reads(Ops& ops, const Tolerance& tolerance) {
  Rng rng(12);
  for (const HyperShape& shape : kHyperShapes) {
    const HyperModel m(rng, shape.type, shape.streams, shape.d_model, shape.rank, true);
    const int rows = 9, wide = shape.streams * shape.d_model;
    Mat streams(rows, wide), flushed(rows, wide), y(rows, shape.d_model), gains(rows, shape.streams),
        x(rows, shape.d_model);
    streams.fill(rng, 1.0f);
    y.fill(rng, 1.0f);
    gains.fill(rng, 1.0f);
    std::vector<Vec> want;
    for (int r = 0; r < rows; ++r) {
      std::copy_n(streams.row(r), wide, flushed.row(r));
      want.push_back(streams.vec(r));
      for (int c = 0; c < wide; ++c) {
        want.back()[static_cast<size_t>(c)] +=
            static_cast<double>(gains.row(r)[c / shape.d_model]) * static_cast<double>(y.row(r)[c % shape.d_model]);
      }
    }
    ops.hyper_step(streams, {y, gains}, m.w, {x, {}});
    ops.hyper_flush(flushed, {y, gains});
    for (int r = 0; r < rows; ++r) {
      expect_near(streams.row(r), want[static_cast<size_t>(r)], tolerance.f32, "written streams");
      expect_same_bits(streams.row(r), flushed.row(r), wide, "write of hyper_step and hyper_flush");
      expect_near(x.row(r), m.read(streams.vec(r)).first, hyper_tolerance(shape.type, tolerance), "a final read");
    }
    ops.hyper_flush(flushed, {});
    for (int r = 0; r < rows; ++r)
      expect_same_bits(streams.row(r), flushed.row(r), wide, "streams after an empty flush");
  }
}

inline void hyper_step_gives_a_row_the_same_bits_in_any_company(Ops& ops, const Tolerance&) {
  Rng rng(13);
  for (const HyperShape& shape : kHyperShapes) {
    const HyperModel m(rng, shape.type, shape.streams, shape.d_model, shape.rank, false);
    const int rows = 19, wide = shape.streams * shape.d_model;
    Mat streams(rows, wide), copy(rows, wide), y(rows, shape.d_model), gains(rows, shape.streams);
    Mat x(rows, shape.d_model), out_gains(rows, shape.streams), one_x(1, shape.d_model), one_gains(1, shape.streams);
    streams.fill(rng, 2.0f);
    y.fill(rng, 1.0f);
    gains.fill(rng, 1.0f);
    for (int r = 0; r < rows; ++r) std::copy_n(streams.row(r), wide, copy.row(r));
    ops.hyper_step(streams, {y, gains}, m.w, {x, out_gains});
    for (int r = 0; r < rows; ++r) {
      const SublayerOutput previous{y.mat().rows_from(r, 1), gains.mat().rows_from(r, 1)};
      ops.hyper_step(copy.mat().rows_from(r, 1), previous, m.w, {one_x, one_gains});
      expect_same_bits(copy.row(r), streams.row(r), wide, "streams");
      expect_same_bits(one_x.row(0), x.row(r), shape.d_model, "x");
      expect_same_bits(one_gains.row(0), out_gains.row(r), shape.streams, "gains");
    }
  }
}

inline std::vector<OpCase> hyper_cases() {
  return {
      {"HyperStepReadsAsTheSpecSays", hyper_step_reads_as_the_spec_says},
      {"HyperStepWritesBeforeItReads", hyper_step_writes_before_it_reads},
      {"HyperStepGivesARowTheSameBitsInAnyCompany", hyper_step_gives_a_row_the_same_bits_in_any_company},
  };
}

}  // namespace strata::test
