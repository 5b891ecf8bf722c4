// Cases of route and experts.
#pragma once

#include <set>

#include "ops/op_case.h"
#include "ops/spec.h"

namespace strata::test {

struct Routes {
  std::vector<int32_t> ids;
  std::vector<float> weights;
  Routed view;

  Routes(int rows, int n_used)
      : ids(static_cast<size_t>(rows * n_used), -1),
        weights(ids.size(), NAN),
        view{ids.data(), weights.data(), n_used} {}
  Routes(const Routes&) = delete;
  Routes& operator=(const Routes&) = delete;
  // The part of one row.
  Routed row(int r) { return {ids.data() + r * view.n_used, weights.data() + r * view.n_used, view.n_used}; }
};

inline void route_meets_the_spec(Ops& ops, const Tolerance& tolerance) {
  Rng rng(61);
  for (const DType type : {DType::F32, DType::BF16}) {
    for (const auto& [n_experts, n_used] : {std::pair{5, 1}, {17, 4}, {64, 8}, {6, 6}}) {
      const int rows = 19, cols = 48;
      const TestWeight router(rng, type, n_experts, cols, 0.3f);
      Mat x(rows, cols);
      x.fill(rng, 1.0f);
      Routes routes(rows, n_used);
      ops.route(router.w(), x, routes.view);
      for (int r = 0; r < rows; ++r) {
        const Vec logits = router.times(x.vec(r));
        std::vector<std::pair<double, int>> ranked;
        for (int e = 0; e < n_experts; ++e) ranked.emplace_back(-logits[static_cast<size_t>(e)], e);
        std::sort(ranked.begin(), ranked.end());
        Vec want;
        double sum = 0;
        for (int i = 0; i < n_used; ++i) {
          EXPECT_EQ(routes.row(r).ids[i], ranked[static_cast<size_t>(i)].second) << "row " << r << " rank " << i;
          want.push_back(std::exp(-ranked[static_cast<size_t>(i)].first));
          sum += want.back();
        }
        for (double& p : want) p /= sum;
        expect_near(routes.row(r).weights, want, 4 * tolerance.f32, "weights");
      }
    }
  }
}

inline void route_gives_a_row_the_same_bits_in_any_company(Ops& ops, const Tolerance&) {
  Rng rng(62);
  const int rows = 21, cols = 64, n_used = 4;
  const TestWeight router(rng, DType::F32, 40, cols, 0.3f);
  Mat x(rows, cols);
  x.fill(rng, 1.0f);
  Routes together(rows, n_used), alone(1, n_used);
  ops.route(router.w(), x, together.view);
  for (int r = 0; r < rows; ++r) {
    ops.route(router.w(), x.mat().rows_from(r, 1), alone.view);
    for (int i = 0; i < n_used; ++i) EXPECT_EQ(alone.ids[static_cast<size_t>(i)], together.row(r).ids[i]);
    expect_same_bits(alone.weights.data(), together.row(r).weights, n_used, "weights");
  }
}

inline void equal_logits_go_to_the_lower_expert(Ops& ops, const Tolerance&) {
  // Logits 0, 1, 1, 0, 1, 2, 1 by construction.
  const TestWeight router(7, 1, {0, 1, 1, 0, 1, 2, 1});
  Mat x(1, 1);
  x.row(0)[0] = 1;
  Routes routes(1, 4);
  ops.route(router.w(), x, routes.view);
  EXPECT_EQ(routes.ids, (std::vector<int32_t>{5, 1, 2, 4}));
  x.row(0)[0] = 0;
  ops.route(router.w(), x, routes.view);
  EXPECT_EQ(routes.ids, (std::vector<int32_t>{0, 1, 2, 3}));
  for (const float weight : routes.weights) EXPECT_EQ(weight, 0.25f);
}

inline void a_logit_that_is_no_number_ranks_last(Ops& ops, const Tolerance&) {
  const TestWeight router(9, 1, {NAN, 1, NAN, -1, 3, NAN, 1, 2, NAN});
  Mat x(1, 1);
  x.row(0)[0] = 1;
  Routes routes(1, 7);
  ops.route(router.w(), x, routes.view);
  EXPECT_EQ(routes.ids, (std::vector<int32_t>{4, 7, 1, 6, 3, 0, 2}));
  for (const float weight : routes.weights) EXPECT_TRUE(std::isnan(weight)) << "the failure must show";
}

inline void route_survives_numbers_out_of_range(Ops& ops, const Tolerance&) {
  Rng rng(63);
  const int n_experts = 30, cols = 40, n_used = 6;
  const TestWeight router(rng, DType::F32, n_experts, cols, 0.3f);
  for (const float bad : {NAN, INFINITY, -INFINITY, 3e38f}) {
    Mat x(3, cols);
    x.fill(rng, 1.0f);
    x.row(1)[7] = bad;
    Routes routes(3, n_used);
    ops.route(router.w(), x, routes.view);
    for (int r = 0; r < 3; ++r) {
      const int32_t* ids = routes.row(r).ids;
      EXPECT_EQ(std::set<int32_t>(ids, ids + n_used).size(), static_cast<size_t>(n_used)) << "experts of a row differ";
      for (int i = 0; i < n_used; ++i) EXPECT_TRUE(ids[i] >= 0 && ids[i] < n_experts) << ids[i];
      if (r != 1) {
        EXPECT_TRUE(std::isfinite(routes.row(r).weights[0])) << "a neighbour of the bad row";
      }
    }
    if (std::isnan(bad)) {
      EXPECT_TRUE(std::isnan(routes.row(1).weights[0])) << "the failure must show";
    }
  }
}

inline void weigh_of_the_routers_own_choice_gives_its_bits(Ops& ops, const Tolerance&) {
  Rng rng(68);
  const int rows = 21, cols = 64, n_used = 4;
  const TestWeight router(rng, DType::F32, 40, cols, 0.3f);
  Mat x(rows, cols);
  x.fill(rng, 1.0f);
  x.row(7)[3] = NAN;
  Routes routed(rows, n_used), chosen(rows, n_used);
  ops.route(router.w(), x, routed.view);
  chosen.ids = routed.ids;
  ops.weigh(router.w(), x, {chosen.ids.data(), chosen.weights.data(), n_used});
  EXPECT_EQ(chosen.ids, routed.ids);
  for (int r = 0; r < rows; ++r) {
    if (r == 7) {
      for (int i = 0; i < n_used; ++i) EXPECT_TRUE(std::isnan(chosen.row(r).weights[i])) << "the failure must show";
    } else {
      expect_same_bits(chosen.row(r).weights, routed.row(r).weights, n_used, "weights");
    }
  }
}

inline void weigh_meets_the_spec_for_any_choice(Ops& ops, const Tolerance& tolerance) {
  Rng rng(69);
  const int n_experts = 17, n_used = 4, rows = 9, cols = 48;
  for (const float spread : {0.3f, 30.0f}) {  // the second: logits hundreds apart, the chosen ones far below the best
    const TestWeight router(rng, DType::F32, n_experts, cols, spread);
    Mat x(rows, cols);
    x.fill(rng, 1.0f);
    Routes routes(rows, n_used);
    for (int r = 0; r < rows; ++r) {
      for (int i = 0; i < n_used; ++i) routes.row(r).ids[i] = (3 * r + 5 * i) % n_experts;
    }
    const std::vector<int32_t> ids = routes.ids;
    ops.weigh(router.w(), x, routes.view);
    EXPECT_EQ(routes.ids, ids);
    for (int r = 0; r < rows; ++r) {
      const Vec logits = router.times(x.vec(r));
      Vec want;
      double sum = 0, most = -INFINITY;
      for (int i = 0; i < n_used; ++i) most = std::max(most, logits[static_cast<size_t>(routes.row(r).ids[i])]);
      for (int i = 0; i < n_used; ++i) {
        want.push_back(std::exp(logits[static_cast<size_t>(routes.row(r).ids[i])] - most));
        sum += want.back();
      }
      for (double& p : want) p /= sum;
      expect_near(routes.row(r).weights, want, (spread < 1 ? 4 : 2000) * tolerance.f32, "weights");
    }
  }
}

struct ExpertShape {
  int n_experts, n_used, d_model, width;
  DType gate, up, down, shared;
  int shared_width = width;
  DType gain = DType::F32;
};
inline constexpr ExpertShape kExpertShapes[] = {
    {6, 2, 24, 10, DType::F32, DType::F32, DType::F32, DType::F32},
    {12, 4, 256, 64, DType::IQ3_XXS, DType::IQ3_XXS, DType::IQ4_NL, DType::Q8_0},
    {9, 3, 256, 96, DType::IQ2_S, DType::Q4_K, DType::Q8_0, DType::BF16},
    {5, 5, 64, 64, DType::NVFP4, DType::NVFP4, DType::NVFP4, DType::F16},
    {7, 2, 256, 64, DType::Q2_0, DType::Q2_0, DType::Q2_0, DType::Q4_1, 160, DType::Q8_0},
};

struct ExpertModel {
  std::vector<TestWeight> gate, up, down;
  TestWeight shared_gate, shared_up, shared_down, shared_gain;
  std::vector<ExpertRef> table;
  ExpertLayer layer;

  explicit ExpertModel(const ExpertShape& s, bool shared_silent = false) {
    Rng rng(64);
    for (int e = 0; e < s.n_experts; ++e) {
      gate.emplace_back(rng, s.gate, s.width, s.d_model, 0.1f + 0.01f * static_cast<float>(e));
      up.emplace_back(rng, s.up, s.width, s.d_model, 0.1f);
      down.emplace_back(rng, s.down, s.d_model, s.width, 0.2f);
      const Weight &g = gate.back().w(), &u = up.back().w(), &d = down.back().w();
      table.push_back({g.data, u.data, d.data, g.scale, u.scale, d.scale});
    }
    shared_gate = TestWeight(rng, s.shared, s.shared_width, s.d_model, 0.1f);
    shared_up = TestWeight(rng, s.shared, s.shared_width, s.d_model, 0.1f);
    shared_down = TestWeight(rng, s.shared, s.d_model, s.shared_width, 0.2f);
    if (shared_silent)
      shared_down =
          TestWeight(s.d_model, s.shared_width, std::vector<float>(static_cast<size_t>(s.d_model * s.shared_width)));
    shared_gain = TestWeight(rng, s.gain, 1, s.d_model, 0.1f);
    layer = {table.data(),   s.n_experts, s.n_used,
             s.d_model,      s.width,     s.gate,
             s.up,           s.down,      {shared_gate.w(), shared_up.w(), shared_down.w()},
             shared_gain.w()};
  }
  ExpertModel(const ExpertModel&) = delete;
  ExpertModel& operator=(const ExpertModel&) = delete;

  Vec spec(const Vec& x, const Routed& routed) const {
    Vec y = spec_feed_forward(shared_gate, shared_up, shared_down, x);
    for (double& v : y) v *= spec_sigmoid(shared_gain.times(x)[0]);
    for (int i = 0; i < routed.n_used; ++i) {
      const auto e = static_cast<size_t>(routed.ids[i]);
      const Vec part = spec_feed_forward(gate[e], up[e], down[e], x);
      for (size_t c = 0; c < y.size(); ++c) y[c] += static_cast<double>(routed.weights[i]) * part[c];
    }
    return y;
  }
};

// Distinct experts of each row, early ones more often, with weights that sum to 1.
inline void random_routes(Rng& rng, int rows, int n_experts, Routes& routes) {
  for (int r = 0; r < rows; ++r) {
    const Routed row = routes.row(r);
    std::set<int32_t> taken;
    float sum = 0;
    for (int i = 0; i < row.n_used; ++i) {
      int32_t id = std::min(rng.below(n_experts), rng.below(n_experts));
      while (!taken.insert(id).second) id = (id + 1) % n_experts;
      row.ids[i] = id;
      row.weights[i] = 0.1f + static_cast<float>(rng.uniform());
      sum += row.weights[i];
    }
    for (int i = 0; i < row.n_used; ++i) row.weights[i] /= sum;
  }
}

inline void experts_meet_the_spec(Ops& ops, const Tolerance& tolerance) {
  Rng rng(65);
  for (const ExpertShape& s : kExpertShapes) {
    const ExpertModel m(s);
    for (const int rows : {1, 2, 7, 33}) {
      const RowRole role = rows <= kMaxWindow ? RowRole::generated : RowRole::prompt;
      Mat x(rows, s.d_model), y(rows, s.d_model);
      x.fill(rng, 1.0f);
      Routes routes(rows, s.n_used);
      random_routes(rng, rows, s.n_experts, routes);
      ops.experts(m.layer, x, routes.view, y, role);
      for (int r = 0; r < rows; ++r) {
        expect_near(y.row(r), m.spec(x.vec(r), routes.row(r)), 2 * tolerance.products,
                    fmt::format("row {} of {}, {}", r, rows, type_name(s.gate)));
      }
      EXPECT_TRUE(y.padding_untouched());
    }
  }
}

inline void experts_give_a_row_the_same_bits_in_any_company(Ops& ops, const Tolerance&) {
  Rng rng(66);
  for (const ExpertShape& s : kExpertShapes) {
    const ExpertModel m(s);
    for (const RowRole role : {RowRole::generated, RowRole::prompt}) {
      const int rows = role == RowRole::generated ? kMaxWindow : 40;
      Mat x(rows, s.d_model), together(rows, s.d_model), alone(1, s.d_model);
      x.fill(rng, 1.0f);
      Routes routes(rows, s.n_used);
      random_routes(rng, rows, s.n_experts, routes);
      ops.experts(m.layer, x, routes.view, together, role);
      for (int r = 0; r < rows; ++r) {
        ops.experts(m.layer, x.mat().rows_from(r, 1), routes.row(r), alone, role);
        expect_same_bits(alone.row(0), together.row(r), s.d_model, fmt::format("row {}, {}", r, type_name(s.gate)));
      }
    }
  }
}

// With weights that are powers of two the products are exact, so the sum in rank order has one value, fused or not.
inline void experts_are_added_in_rank_order(Ops& ops, const Tolerance&) {
  Rng rng(67);
  const ExpertShape s = {6, 3, 24, 10, DType::F32, DType::F32, DType::F32, DType::F32};
  const ExpertModel m(s, true);
  const float weights[] = {0.5f, 0.25f, 0.25f};
  const int32_t orders[][3] = {{0, 3, 5}, {5, 3, 0}, {3, 5, 0}, {4, 1, 2}};
  for (const RowRole role : {RowRole::generated, RowRole::prompt}) {
    Mat x(4, s.d_model), y(4, s.d_model), single(1, s.d_model);
    x.fill(rng, 3.0f);
    Routes routes(4, 3);
    for (int r = 0; r < 4; ++r) {
      std::copy_n(orders[r], 3, routes.row(r).ids);
      std::copy_n(weights, 3, routes.row(r).weights);
    }
    ops.experts(m.layer, x, routes.view, y, role);
    for (int r = 0; r < 4; ++r) {
      std::vector<float> sum(static_cast<size_t>(s.d_model));
      for (int i = 0; i < 3; ++i) {
        Routes one(1, 1);
        one.ids[0] = orders[r][i];
        one.weights[0] = 1;
        ops.experts(m.layer, x.mat().rows_from(r, 1), one.view, single, role);
        for (size_t c = 0; c < sum.size(); ++c) sum[c] += weights[i] * single.row(0)[c];
      }
      for (int c = 0; c < s.d_model; ++c)
        EXPECT_EQ(y.row(r)[c], sum[static_cast<size_t>(c)]) << "row " << r << " column " << c;
    }
  }
}

inline std::vector<OpCase> expert_cases() {
  return {
      {"RouteMeetsTheSpec", route_meets_the_spec},
      {"RouteGivesARowTheSameBitsInAnyCompany", route_gives_a_row_the_same_bits_in_any_company},
      {"EqualLogitsGoToTheLowerExpert", equal_logits_go_to_the_lower_expert},
      {"ALogitThatIsNoNumberRanksLast", a_logit_that_is_no_number_ranks_last},
      {"RouteSurvivesNumbersOutOfRange", route_survives_numbers_out_of_range},
      {"WeighOfTheRoutersOwnChoiceGivesItsBits", weigh_of_the_routers_own_choice_gives_its_bits},
      {"WeighMeetsTheSpecForAnyChoice", weigh_meets_the_spec_for_any_choice},
      {"ExpertsMeetTheSpec", experts_meet_the_spec},
      {"ExpertsGiveARowTheSameBitsInAnyCompany", experts_give_a_row_the_same_bits_in_any_company},
      {"ExpertsAreAddedInRankOrder", experts_are_added_in_rank_order},
  };
}

}  // namespace strata::test
