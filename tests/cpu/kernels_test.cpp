#include "cpu/kernels.h"

#include <cmath>
#include <limits>

#include "ops/fixtures.h"
#include "quant/formats.h"
#include "quant/half.h"

namespace strata::test {

constexpr int kSizes[] = {1, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 64, 100, 257};

TEST(Kernels, AreListedFromTheWidestToTheGeneric) {
  const auto all = available_kernels();
  ASSERT_FALSE(all.empty());
  EXPECT_STREQ(all.back()->isa, "generic");
  for (const Kernels* k : all) EXPECT_EQ(find_kernels(k->isa), k);
  EXPECT_EQ(find_kernels("auto"), all.front());
  EXPECT_EQ(find_kernels("no such set"), nullptr);
  EXPECT_EQ(find_kernels(""), nullptr);
}

TEST(Kernels, DotOfManyLongRowsIsTheDotOfAPair) {
  Rng rng(4);
  const int n = 2 * 1024 + 7, n_w = 37, n_x = 45;
  const std::vector<float> w = rng.normals(n_w * n, 1.0f);
  Mat x(n_x, n), out(n_x, n_w);
  x.fill(rng, 1.0f);
  std::vector<const float*> rows;
  for (int r = 0; r < n_x; ++r) rows.push_back(x.row(r));
  for (const Kernels* k : available_kernels()) {
    k->dot_tile(w.data(), n, n_w, rows.data(), n_x, n, out.row(0), out.mat().stride);
    EXPECT_TRUE(out.padding_untouched());
    for (int r = 0; r < n_x; ++r) {
      for (int j = 0; j < n_w; ++j) {
        float alone = NAN;
        k->dot_tile(w.data() + j * n, n, 1, &rows[static_cast<size_t>(r)], 1, n, &alone, 1);
        expect_same_bits(&alone, out.row(r) + j, 1, fmt::format("{} row {} weight {}", k->isa, r, j));
      }
    }
  }
}

TEST(Kernels, DotWithSixteenBitWeightsIsTheDotWithTheirValues) {
  Rng rng(3);
  for (const Kernels* k : available_kernels()) {
    for (const int n : kSizes) {
      const int n_w = 7, n_x = 5;
      std::vector<uint16_t> halves, brains;
      std::vector<float> half_values, brain_values;
      for (const float v : rng.normals(n_w * n, 1.0f)) {
        halves.push_back(float_to_half(v));
        half_values.push_back(half_to_float(halves.back()));
        brains.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(v) >> 16));
        brain_values.push_back(bf16_to_float(brains.back()));
      }
      Mat x(n_x, n), want(n_x, n_w), got(n_x, n_w);
      x.fill(rng, 1.0f);
      std::vector<const float*> rows;
      for (int r = 0; r < n_x; ++r) rows.push_back(x.row(r));
      k->dot_tile(half_values.data(), n, n_w, rows.data(), n_x, n, want.row(0), want.mat().stride);
      k->dot_tile_f16(halves.data(), n, n_w, rows.data(), n_x, n, got.row(0), got.mat().stride);
      for (int r = 0; r < n_x; ++r) expect_same_bits(got.row(r), want.row(r), n_w, fmt::format("{} f16 {}", k->isa, n));
      k->dot_tile(brain_values.data(), n, n_w, rows.data(), n_x, n, want.row(0), want.mat().stride);
      k->dot_tile_bf16(brains.data(), n, n_w, rows.data(), n_x, n, got.row(0), got.mat().stride);
      for (int r = 0; r < n_x; ++r)
        expect_same_bits(got.row(r), want.row(r), n_w, fmt::format("{} bf16 {}", k->isa, n));
    }
  }
}

TEST(Kernels, DotOfAnyBlockShapeIsTheDotOfAPair) {
  Rng rng(1);
  for (const Kernels* k : available_kernels()) {
    for (const int n : kSizes) {
      const int n_w = 11, n_x = 9, w_stride = n + 2;
      const std::vector<float> w = rng.normals(n_w * w_stride, 1.0f);
      Mat x(n_x, n), out(n_x, n_w);
      x.fill(rng, 1.0f);
      std::vector<const float*> rows;
      for (int r = 0; r < n_x; ++r) rows.push_back(x.row(n_x - 1 - r));
      k->dot_tile(w.data(), w_stride, n_w, rows.data(), n_x, n, out.row(0), out.mat().stride);
      EXPECT_TRUE(out.padding_untouched());
      for (int r = 0; r < n_x; ++r) {
        Vec want;
        for (int j = 0; j < n_w; ++j) {
          float alone = NAN;
          k->dot_tile(w.data() + j * w_stride, w_stride, 1, &rows[static_cast<size_t>(r)], 1, n, &alone, 1);
          expect_same_bits(&alone, out.row(r) + j, 1, fmt::format("{} n {} row {} weight {}", k->isa, n, r, j));
          want.push_back(0);
          for (int i = 0; i < n; ++i)
            want.back() += static_cast<double>(w[static_cast<size_t>(j * w_stride + i)]) *
                           static_cast<double>(rows[static_cast<size_t>(r)][i]);
        }
        expect_near(out.row(r), want, 1e-5, k->isa);
      }
    }
  }
}

// Runs one kernel with every instruction set on inputs of every size, and compares what it wrote.
void expect_one_answer(
    const std::function<void(const Kernels&, int n, std::vector<float>& x, const std::vector<float>& y)>& run) {
  for (const int n : kSizes) {
    std::vector<float> first;
    for (const Kernels* k : available_kernels()) {
      Rng rng(static_cast<uint64_t>(n));
      std::vector<float> x = rng.normals(n, 3.0f);
      const std::vector<float> y = rng.normals(n, 3.0f);
      x.push_back(77);  // nothing beyond n may change
      run(*k, n, x, y);
      EXPECT_EQ(x.back(), 77) << k->isa << " " << n;
      if (first.empty()) first = x;
      expect_one_answer(k->isa, x, first, fmt::format("{} n {}", k->isa, n));
    }
  }
}

TEST(Kernels, GiveOneAnswerWithEveryInstructionSet) {
  expect_one_answer(
      [](const Kernels& k, int n, auto& x, auto& y) { k.rms_norm(x.data(), y.data(), n, 1e-6f, x.data()); });
  expect_one_answer([](const Kernels& k, int n, auto& x, auto&) { k.unit_norm(x.data(), n, 1e-6f, 0.3f); });
  expect_one_answer([](const Kernels& k, int n, auto& x, auto& y) { k.add_scaled(x.data(), y.data(), 0.7f, n); });
  expect_one_answer([](const Kernels& k, int n, auto& x, auto&) { x[0] = k.exp_sum(x.data(), 2.0f, n); });
  expect_one_answer([](const Kernels& k, int n, auto& x, auto&) { k.silu(x.data(), 0.25f, n); });
  expect_one_answer([](const Kernels& k, int n, auto& x, auto& y) { k.silu_times(x.data(), y.data(), n); });
  expect_one_answer([](const Kernels& k, int n, auto& x, auto& y) { k.gate(x.data(), y.data(), n); });
  expect_one_answer([](const Kernels& k, int n, auto& x, auto&) { k.sigmoid(x.data(), 0.5f, 2.0f, n); });
  expect_one_answer([](const Kernels& k, int n, auto& x, auto& y) { k.add_gated(x.data(), y.data(), y.data(), n); });
}

TEST(Kernels, ExpIsWithinTwoUnitsOfTheLastPlace) {
  for (const Kernels* k : available_kernels()) {
    std::vector<float> x, want;
    for (float at = -87.3f; at < 88.7f; at += 0.0137f) x.push_back(at);
    std::vector<float> got = x;
    k->exp_sum(got.data(), 0, static_cast<int>(got.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp(static_cast<double>(x[i]));
      ASSERT_NEAR(static_cast<double>(got[i]) / exact, 1.0, 0x1p-22) << k->isa << " e^" << x[i];
    }
  }
}

TEST(Kernels, ExpAndSigmoidKeepTheirEnds) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const Kernels* k : available_kernels()) {
    float x[] = {kInfinity, -kInfinity, NAN, 0.0f, -0.0f, 1000.0f, -1000.0f, std::numeric_limits<float>::denorm_min()};
    float y[] = {kInfinity, -kInfinity, NAN, 0.0f, -0.0f, 1000.0f, -1000.0f, std::numeric_limits<float>::denorm_min()};
    k->exp_sum(x, 0, 8);
    EXPECT_EQ(x[0], kInfinity);
    EXPECT_EQ(x[1], 0.0f);
    EXPECT_TRUE(std::isnan(x[2]));
    EXPECT_EQ(x[3], 1.0f);
    EXPECT_EQ(x[4], 1.0f);
    EXPECT_EQ(x[5], kInfinity);
    EXPECT_EQ(x[6], 0.0f);
    EXPECT_EQ(x[7], 1.0f);
    k->sigmoid(y, 1.0f, 1.0f, 8);
    EXPECT_EQ(y[0], 1.0f);
    EXPECT_EQ(y[1], 0.0f);
    EXPECT_TRUE(std::isnan(y[2]));
    EXPECT_EQ(y[3], 0.5f);
    EXPECT_EQ(y[4], 0.5f);
    EXPECT_EQ(y[5], 1.0f);
    EXPECT_EQ(y[6], 0.0f);
  }
}

}  // namespace strata::test
