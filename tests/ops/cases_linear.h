// Cases of linear, head and embed.
#pragma once

#include "ops/op_case.h"

namespace strata::test {

// Row counts around the widths that implementations group rows by.
inline constexpr int kRowCounts[] = {1, 2, 7, 8, 9, 33};

inline void linear_meets_the_spec_in_every_format(Ops& ops, const Tolerance& tolerance) {
  Rng rng(1);
  for (const TypeTraits& type : all_types()) {
    for (const int rows : kRowCounts) {
      const int cols = type.block_elems * (1 + rng.below(3)), outputs = 1 + rng.below(70);
      const TestWeight w(rng, type.type, outputs, cols, 0.05f);
      Mat x(rows, cols), y(rows, outputs);
      x.fill(rng, 1.0f);
      const RowRole role = rows <= kMaxWindow ? RowRole::generated : RowRole::prompt;
      const MatF32 out = y;
      ops.linear({&w.w(), 1}, x, {&out, 1}, role);
      // A short output row may lie near zero by chance: all rows of the matrix are judged together.
      Vec want, got;
      for (int r = 0; r < rows; ++r) {
        const Vec row = w.times(x.vec(r)), y_row = y.vec(r);
        want.insert(want.end(), row.begin(), row.end());
        got.insert(got.end(), y_row.begin(), y_row.end());
      }
      const std::vector<float> flat(got.begin(), got.end());
      if (rows * outputs < 16) continue;
      expect_near(flat.data(), want, tolerance.products,
                  fmt::format("{} {} x {}, {} rows", type.name, cols, outputs, rows));
      EXPECT_TRUE(y.padding_untouched());
    }
  }
}

inline void linear_serves_several_weights_of_one_input(Ops& ops, const Tolerance& tolerance) {
  Rng rng(2);
  const int cols = 256, outputs[] = {40, 3, 1, 129};
  const DType types[] = {DType::IQ3_XXS, DType::F32, DType::BF16, DType::Q8_0};
  for (const RowRole role : {RowRole::generated, RowRole::prompt}) {
    const int rows = role == RowRole::generated ? 5 : 21;
    Mat x(rows, cols);
    x.fill(rng, 0.5f);
    std::vector<TestWeight> weights;
    std::vector<Weight> ws;
    std::vector<std::unique_ptr<Mat>> outs;
    std::vector<MatF32> ys;
    for (size_t i = 0; i < 4; ++i) {
      weights.emplace_back(rng, types[i], outputs[i], cols, 0.1f);
      ws.push_back(weights.back().w());
      outs.push_back(std::make_unique<Mat>(rows, outputs[i]));
      ys.push_back(*outs.back());
    }
    ops.linear(ws, x, ys, role);
    for (size_t i = 0; i < 4; ++i) {
      for (int r = 0; r < rows; ++r) {
        const Vec want = weights[i].times(x.vec(r));
        // Relative to what a row of this weight is on average, as single outputs may be small.
        const double scale = 0.1 * 0.5 * std::sqrt(cols);
        for (size_t o = 0; o < want.size(); ++o) {
          EXPECT_NEAR(static_cast<double>(ys[i].row(r)[o]), want[o], 2 * tolerance.products * scale)
              << i << " " << r << " " << o;
        }
      }
    }
  }
}

inline void linear_gives_a_row_the_same_bits_in_any_company(Ops& ops, const Tolerance&) {
  Rng rng(3);
  for (const DType type :
       {DType::F32, DType::BF16, DType::Q8_0, DType::Q6_K, DType::IQ3_XXS, DType::IQ4_NL, DType::Q2_0}) {
    const int cols = 512, outputs = 37;
    const TestWeight w(rng, type, outputs, cols, 0.05f);
    for (const RowRole role : {RowRole::generated, RowRole::prompt}) {
      const int rows = role == RowRole::generated ? kMaxWindow : 45;
      Mat x(rows, cols), together(rows, outputs), alone(1, outputs);
      x.fill(rng, 1.0f);
      const MatF32 all = together, one = alone;
      ops.linear({&w.w(), 1}, x, {&all, 1}, role);
      for (int r = 0; r < rows; ++r) {
        ops.linear({&w.w(), 1}, x.mat().rows_from(r, 1), {&one, 1}, role);
        expect_same_bits(together.row(r), alone.row(0), outputs, fmt::format("{} row {}", type_name(type), r));
      }
    }
  }
}

inline void head_computes_the_rows_asked_for(Ops& ops, const Tolerance& tolerance) {
  Rng rng(4);
  for (const DType type : {DType::Q6_K, DType::F32, DType::Q8_0}) {
    const int cols = 256, vocab = 301;
    const TestWeight w(rng, type, vocab, cols, 0.05f);
    Mat x(9, cols);
    x.fill(rng, 1.0f);
    const std::vector<int> rows = {8, 0, 3, 3};
    Mat logits(4, vocab), alone(1, vocab);
    ops.head(w.w(), x, rows, logits);
    for (int i = 0; i < 4; ++i) {
      const int r = rows[static_cast<size_t>(i)];
      expect_near(logits.row(i), w.times(x.vec(r)), tolerance.products, fmt::format("{} row {}", type_name(type), r));
      ops.head(w.w(), x, {&r, 1}, alone);
      expect_same_bits(logits.row(i), alone.row(0), vocab, "a row asked for alone");
    }
    Mat none(0, vocab);
    ops.head(w.w(), x, {}, none);  // a prompt chunk that wants no logits
  }
}

inline void embed_copies_a_table_row_into_every_stream(Ops& ops, const Tolerance&) {
  Rng rng(5);
  for (const DType type : {DType::Q6_K, DType::IQ4_NL, DType::F16}) {
    const int width = 256, n_streams = 4;
    const TestWeight table(rng, type, 50, width, 1.0f);
    const std::vector<TokenId> ids = {TokenId(49), TokenId(0), TokenId(7), TokenId(7)};
    Mat streams(4, n_streams * width);
    ops.embed(table.w(), ids, {}, streams, n_streams);
    for (int r = 0; r < 4; ++r) {
      for (int c = 0; c < n_streams * width; ++c) {
        const double want = table.at(ids[static_cast<size_t>(r)].v, c % width);
        ASSERT_EQ(streams.row(r)[c], static_cast<float>(want)) << type_name(type) << " " << r << " " << c;
      }
    }
  }
}

inline void embed_prefers_a_given_embedding(Ops& ops, const Tolerance&) {
  Rng rng(6);
  const int width = 64, n_streams = 3;
  const TestWeight table(rng, DType::Q8_0, 5, width, 1.0f);
  const std::vector<float> image = rng.normals(width, 1.0f);
  const std::vector<TokenId> ids = {TokenId(1), TokenId(2)};
  const std::vector<const float*> embeddings = {nullptr, image.data()};
  Mat streams(2, n_streams * width);
  ops.embed(table.w(), ids, embeddings, streams, n_streams);
  for (int c = 0; c < n_streams * width; ++c) {
    ASSERT_EQ(streams.row(0)[c], static_cast<float>(table.at(1, c % width)));
    ASSERT_EQ(streams.row(1)[c], image[static_cast<size_t>(c % width)]);
  }
}

inline std::vector<OpCase> linear_cases() {
  return {
      {"LinearMeetsTheSpecInEveryFormat", linear_meets_the_spec_in_every_format},
      {"LinearServesSeveralWeightsOfOneInput", linear_serves_several_weights_of_one_input},
      {"LinearGivesARowTheSameBitsInAnyCompany", linear_gives_a_row_the_same_bits_in_any_company},
      {"HeadComputesTheRowsAskedFor", head_computes_the_rows_asked_for},
      {"EmbedCopiesATableRowIntoEveryStream", embed_copies_a_table_row_into_every_stream},
      {"EmbedPrefersAGivenEmbedding", embed_prefers_a_given_embedding},
  };
}

}  // namespace strata::test
