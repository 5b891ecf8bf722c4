#include "cpu/mixers.h"

#include <bit>
#include <cmath>
#include <limits>

#include "cpu/kernels.h"
#include "ops/fixtures.h"
#include "quant/half.h"

namespace strata::test {

constexpr float kInf = std::numeric_limits<float>::infinity();

// compute(kernels) gives one answer.
void expect_one_answer(const std::string& what, const std::function<std::vector<float>(const Kernels&)>& compute) {
  std::vector<float> first;
  for (const Kernels* k : available_kernels()) {
    const std::vector<float> got = compute(*k);
    if (first.empty()) first = got;
    expect_one_answer(k->isa, got, first, fmt::format("{}, {}", k->isa, what));
  }
}

// Rows of random values in either format, and what they stand for.
struct Rows {
  std::vector<uint16_t> halves;
  std::vector<float> floats;
  std::vector<const std::byte*> at;
  int dim;
  bool half;

  Rows(Rng& rng, int n, int width, bool in_half) : floats(rng.normals(n * width, 1.0f)), dim(width), half(in_half) {
    for (float& x : floats) {
      halves.push_back(float_to_half(x));
      if (half) x = half_to_float(halves.back());
    }
    for (int i = 0; i < n; ++i) {
      const auto start = static_cast<size_t>(i * dim);
      at.push_back(half ? reinterpret_cast<const std::byte*>(halves.data() + start)
                        : reinterpret_cast<const std::byte*>(floats.data() + start));
    }
  }
  double value(int i, int d) const { return static_cast<double>(floats[static_cast<size_t>(i * dim + d)]); }
  KvTile tile(int first, int n) const { return {at.data() + first, n, dim, half}; }
};

constexpr int kDims[] = {1, 8, 15, 16, 20, 33, 64, 256};
constexpr int kHeads[] = {1, 2, 3, 4, 7, 12};

TEST(Mixers, AddProductsWithOneRoundingWhereTheyCan) {
  Rng rng(1);
  std::vector<float> values, addends;
  const float special[] = {0.0f, -0.0f, 1.0f, kInf, -kInf, NAN, 0x1p-149f, 0x1.fffffep127f, 0x1p-126f, 3.0f};
  for (int i = 0; i < 4096; ++i) {
    values.push_back(i < 10 ? special[i] : std::bit_cast<float>(static_cast<uint32_t>(rng.next())));
    addends.push_back(i < 100 ? special[i / 10] : std::bit_cast<float>(static_cast<uint32_t>(rng.next())));
  }
  const auto n = static_cast<int>(values.size());
  const auto* row = reinterpret_cast<const std::byte*>(values.data());
  for (int round = 0; round < 200; ++round) {
    const float weight = round < 10 ? special[round] : std::bit_cast<float>(static_cast<uint32_t>(rng.next()));
    // Nearly everything cancels in half of them: the addend is minus the rounded product, or next to it.
    std::vector<float> c = addends;
    for (int i = 10; i < n; i += 2) {
      const float product = -weight * values[static_cast<size_t>(i)];
      c[static_cast<size_t>(i)] = i % 4 == 0 ? product : std::nextafter(product, 0.0f);
    }
    for (const Kernels* k : available_kernels()) {
      std::vector<float> out = c;
      const float keep = 1.0f;
      k->mixers->attend_values({&row, 1, n, false}, &weight, 1, &keep, 1, out.data());
      for (size_t i = 0; i < out.size(); ++i) {
        const bool generic = k->isa == std::string_view("generic");
        const float want = generic ? weight * values[i] + c[i] : std::fma(weight, values[i], c[i]);
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(out[i])) << k->isa << " " << weight << " " << values[i] << " " << c[i];
        } else {
          ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(want))
              << k->isa << " " << weight << " " << values[i] << " " << c[i];
        }
      }
    }
  }
}

TEST(Mixers, ScoreEveryHeadAndPositionByItsOwnProduct) {
  for (const bool half : {false, true}) {
    for (const int dim : kDims) {
      for (const int heads : kHeads) {
        Rng rng(static_cast<uint64_t>(dim * 100 + heads));
        const int n = 11, stride = n + 1;
        const Rows keys(rng, n, dim, half);
        const std::vector<float> queries = rng.normals(heads * dim, 1.0f);
        const std::string what = fmt::format("{} heads of {}, half {}", heads, dim, half);
        expect_one_answer(what, [&](const Kernels& k) {
          std::vector<float> got(static_cast<size_t>(heads * stride), 77.0f);
          k.mixers->attend_scores(keys.tile(0, n), queries.data(), heads, 0.5f, got.data(), stride);
          for (int h = 0; h < heads; ++h) {
            EXPECT_EQ(got[static_cast<size_t>(h * stride + n)], 77.0f);
            Vec want;
            for (int i = 0; i < n; ++i) {
              want.push_back(0);
              for (int d = 0; d < dim; ++d)
                want.back() += 0.5 * static_cast<double>(queries[static_cast<size_t>(h * dim + d)]) * keys.value(i, d);
              float alone = NAN;
              k.mixers->attend_scores(keys.tile(i, 1), queries.data() + h * dim, 1, 0.5f, &alone, 1);
              expect_same_bits(&alone, got.data() + h * stride + i, 1, what);
            }
            expect_near(got.data() + h * stride, want, 1e-5, what);
          }
          return got;
        });
      }
    }
  }
}

TEST(Mixers, AddValuesOfAnyNumberOfHeadsInTheSameOrder) {
  for (const bool half : {false, true}) {
    for (const int dim : kDims) {
      for (const int heads : kHeads) {
        Rng rng(static_cast<uint64_t>(dim * 100 + heads));
        const int n = 9;
        const Rows values(rng, n, dim, half);
        const std::vector<float> weights = rng.normals(heads * n, 1.0f), rescale = rng.normals(heads, 1.0f);
        const std::vector<float> before = rng.normals(heads * dim, 1.0f);
        const std::string what = fmt::format("{} heads of {}, half {}", heads, dim, half);
        expect_one_answer(what, [&](const Kernels& k) {
          std::vector<float> got = before;
          got.push_back(77.0f);
          k.mixers->attend_values(values.tile(0, n), weights.data(), n, rescale.data(), heads, got.data());
          EXPECT_EQ(got.back(), 77.0f);
          for (int h = 0; h < heads; ++h) {
            const auto first = static_cast<size_t>(h * dim);
            Vec want;
            for (int d = 0; d < dim; ++d) {
              want.push_back(static_cast<double>(before[first + static_cast<size_t>(d)]) *
                             static_cast<double>(rescale[static_cast<size_t>(h)]));
              for (int i = 0; i < n; ++i)
                want.back() += static_cast<double>(weights[static_cast<size_t>(h * n + i)]) * values.value(i, d);
            }
            for (size_t d = 0; d < want.size(); ++d)
              EXPECT_NEAR(static_cast<double>(got[first + d]), want[d], 1e-5) << what;
            std::vector<float> alone(before.begin() + h * dim, before.begin() + (h + 1) * dim);
            k.mixers->attend_values(values.tile(0, n), weights.data() + h * n, n, rescale.data() + h, 1, alone.data());
            expect_same_bits(alone.data(), got.data() + first, dim, what);
          }
          return got;
        });
      }
    }
  }
}

TEST(Mixers, SoftmaxOverTilesIsThatOfTheWhole) {
  for (const int n : {1, 3, 8, 16, 17, 64}) {
    Rng rng(static_cast<uint64_t>(n));
    std::vector<float> scores = rng.normals(3 * n, 10.0f);
    scores[0] = 5000.0f;  // no e^5000 is ever computed
    scores.back() = -5000.0f;
    expect_one_answer(fmt::format("tiles of {}", n), [&](const Kernels& k) {
      std::vector<float> weights = scores;
      float highest = -kInf, total = 0;
      std::vector<float> rescale;
      for (int tile = 0; tile < 3; ++tile)
        rescale.push_back(k.mixers->softmax_tile(weights.data() + tile * n, n, &highest, &total));
      EXPECT_EQ(rescale[0], 0.0f);
      double want = 0;
      for (const float s : scores) want += std::exp(static_cast<double>(s) - static_cast<double>(highest));
      EXPECT_NEAR(static_cast<double>(total) / want, 1.0, 1e-6) << k.isa;
      EXPECT_EQ(highest, *std::max_element(scores.begin(), scores.end()));
      weights.insert(weights.end(), {total, rescale[1], rescale[2]});
      return weights;
    });
  }
}

TEST(Mixers, FinishHeadsByTotalAndGate) {
  for (const int dim : kDims) {
    Rng rng(static_cast<uint64_t>(dim));
    const int heads = 3;
    const std::vector<float> sums = rng.normals(heads * dim, 3.0f), gates = rng.normals(heads * dim, 3.0f);
    const float total[] = {0.5f, 3.0f, 1000.0f};
    expect_one_answer(fmt::format("{} columns", dim), [&](const Kernels& k) {
      std::vector<float> got = sums;
      k.mixers->finish_heads(got.data(), heads, dim, total, gates.data());
      for (int i = 0; i < heads * dim; ++i) {
        const auto at = static_cast<size_t>(i);
        const double gate = 1 / (1 + std::exp(-static_cast<double>(gates[at])));
        EXPECT_NEAR(static_cast<double>(got[at]),
                    static_cast<double>(sums[at]) / static_cast<double>(total[i / dim]) * gate, 2e-6);
      }
      return got;
    });
  }
}

TEST(Mixers, ScoreBlocksByTheirPositiveProducts) {
  for (const int dim : kDims) {
    for (const int heads : {1, 2, 3, 4, 5, 8}) {
      Rng rng(static_cast<uint64_t>(dim * 10 + heads));
      const int n = 17;
      std::vector<float> keys = rng.normals(n * dim, 1.0f);
      const std::vector<float> queries = rng.normals(heads * dim, 1.0f);
      keys[static_cast<size_t>(5 * dim)] = NAN;
      const std::string what = fmt::format("{} heads of {}", heads, dim);
      expect_one_answer(what, [&](const Kernels& k) {
        std::vector<float> got(n);
        k.mixers->block_scores(keys.data(), n, queries.data(), heads, dim, got.data());
        EXPECT_EQ(got[5], -kInf);
        for (int b = 0; b < n; ++b) {
          float alone = NAN;
          k.mixers->block_scores(keys.data() + b * dim, 1, queries.data(), heads, dim, &alone);
          expect_same_bits(&alone, &got[static_cast<size_t>(b)], 1, what);
          if (b == 5) continue;
          double want = 0;
          for (int h = 0; h < heads; ++h) {
            double product = 0;
            for (int d = 0; d < dim; ++d)
              product += static_cast<double>(queries[static_cast<size_t>(h * dim + d)]) *
                         static_cast<double>(keys[static_cast<size_t>(b * dim + d)]);
            want += std::max(product, 0.0);
          }
          EXPECT_NEAR(static_cast<double>(got[static_cast<size_t>(b)]), want, 1e-5 * (1 + dim)) << what;
        }
        return got;
      });
    }
  }
}

TEST(Mixers, CountAndFindWhatLiesBetweenTwoBounds) {
  for (const int n : {0, 1, 7, 16, 31, 32, 33, 100, 1000}) {
    Rng rng(static_cast<uint64_t>(n));
    std::vector<float> x;
    for (int i = 0; i < n; ++i)
      x.push_back(i % 13 == 5 ? -kInf : i % 29 == 3 ? kInf : static_cast<float>(rng.below(9)));
    for (const float low : {-kInf, 0.0f, 4.0f, 8.0f, kInf}) {
      for (const float high : {0.0f, 5.0f, kInf, NAN}) {
        std::vector<int32_t> want;
        for (int i = 0; i < n; ++i) {
          const float v = x[static_cast<size_t>(i)];
          if (v >= low && !(v >= high)) want.push_back(i);
        }
        for (const Kernels* k : available_kernels()) {
          EXPECT_EQ(k->mixers->count_at_least(x.data(), n, low),
                    std::count_if(x.begin(), x.end(), [&](float v) { return v >= low; }));
          std::vector<int32_t> got(x.size() + 2, -7);
          const int found = k->mixers->find_between(x.data(), n, low, high, got.data());
          EXPECT_EQ(got.back(), -7);
          got.resize(static_cast<size_t>(found));
          EXPECT_EQ(got, want) << k->isa << " " << low << " to " << high;
        }
      }
    }
  }
}

struct DeltaCase {
  int k_dim, n_factors;
  std::vector<float> state, keys, updates, key, query, value;
  std::vector<DeltaFactor> factors;

  DeltaCase(int dim, int n) : k_dim(dim), n_factors(n) {
    Rng rng(static_cast<uint64_t>(dim * 10 + n));
    state = rng.normals(dim * kDeltaStrip, 1.0f);
    keys = rng.normals(n * dim, 0.3f);
    updates = rng.normals(n * kDeltaStrip, 1.0f);
    key = rng.normals(dim, 0.3f);
    query = rng.normals(dim, 0.3f);
    value = rng.normals(kDeltaStrip, 1.0f);
    for (int f = 0; f < n; ++f)
      factors.push_back({0.9f - 0.2f * static_cast<float>(f), keys.data() + f * dim, updates.data() + f * kDeltaStrip});
  }
};

TEST(Mixers, ADeltaPassAppliesItsFactorsAndReadsTheResult) {
  for (const int dim : {1, 20, 64, 128}) {
    for (const int n : {0, 1, 2, 5}) {
      const DeltaCase c(dim, n);
      expect_one_answer(fmt::format("{} factors of {}", n, dim), [&](const Kernels& k) {
        std::vector<float> z(c.state.size()), update(kDeltaStrip), out(kDeltaStrip), same = c.state;
        DeltaPass pass{dim, c.state.data(), kDeltaStrip, z.data(), kDeltaStrip, c.factors.data(), n};
        pass.key = c.key.data();
        pass.query = c.query.data();
        pass.query_key = 0.4f;
        pass.decay = 0.8f;
        pass.beta = 0.6f;
        pass.value = c.value.data();
        pass.update = update.data();
        pass.out = out.data();
        k.mixers->delta_pass(pass);
        // One factor at a time, in place, without a read.
        for (const DeltaFactor& f : c.factors)
          k.mixers->delta_pass({dim, same.data(), kDeltaStrip, same.data(), kDeltaStrip, &f, 1});
        expect_same_bits(z.data(), same.data(), static_cast<int>(z.size()), k.isa);
        Vec want_update, want_out;
        for (int j = 0; j < kDeltaStrip; ++j) {
          double by_key = 0, by_query = 0;
          for (int i = 0; i < dim; ++i) {
            auto value = static_cast<double>(c.state[static_cast<size_t>(i * kDeltaStrip + j)]);
            for (const DeltaFactor& f : c.factors)
              value = static_cast<double>(f.decay) * value +
                      static_cast<double>(f.key[i]) * static_cast<double>(f.update[j]);
            by_key += static_cast<double>(c.key[static_cast<size_t>(i)]) * value;
            by_query += static_cast<double>(c.query[static_cast<size_t>(i)]) * value;
          }
          want_update.push_back(0.6 * (static_cast<double>(c.value[static_cast<size_t>(j)]) - 0.8 * by_key));
          want_out.push_back(0.8 * by_query + 0.4 * want_update.back());
        }
        expect_near(update.data(), want_update, 1e-5, k.isa);
        expect_near(out.data(), want_out, 1e-5, k.isa);
        // What is read does not depend on whether the state is kept.
        std::vector<float> again(kDeltaStrip);
        pass.to = nullptr;
        pass.out = again.data();
        k.mixers->delta_pass(pass);
        expect_same_bits(again.data(), out.data(), kDeltaStrip, k.isa);
        z.insert(z.end(), out.begin(), out.end());
        z.insert(z.end(), update.begin(), update.end());
        return z;
      });
    }
  }
}

TEST(Mixers, ConvolveRowsTogetherAsOneByOne) {
  for (const int taps : {1, 2, 4, 5}) {
    for (const int dilation : {1, 3}) {
      const int channels = 53, n_rows = 7, remembered = (taps - 1) * dilation;
      Rng rng(static_cast<uint64_t>(taps * 10 + dilation));
      const std::vector<float> past = rng.normals(remembered * channels, 1.0f),
                               inputs = rng.normals(n_rows * channels, 1.0f);
      const std::vector<float> weights = rng.normals(channels * taps, 1.0f);
      for (const int first : {0, 3}) {
        const int count = channels - 2 * first;
        expect_one_answer(fmt::format("{} taps, {} apart", taps, dilation), [&](const Kernels& k) {
          std::vector<float> got(static_cast<size_t>(n_rows * count));
          ConvPass pass{past.data() + past.size(),
                        channels,
                        inputs.data(),
                        channels,
                        weights.data(),
                        taps,
                        dilation,
                        first,
                        count,
                        0,
                        n_rows};
          k.mixers->conv_silu(pass, got.data(), count);
          for (int r = 0; r < n_rows; ++r) {
            Vec want;
            for (int i = first; i < first + count; ++i) {
              double sum = 0;
              for (int j = 0; j < taps; ++j) {
                const int from = r - (taps - 1 - j) * dilation;
                const float input = from >= 0 ? inputs[static_cast<size_t>(from * channels + i)]
                                              : past[static_cast<size_t>((remembered + from) * channels + i)];
                sum += static_cast<double>(weights[static_cast<size_t>(i * taps + j)]) * static_cast<double>(input);
              }
              want.push_back(sum / (1 + std::exp(-sum)));
            }
            expect_near(got.data() + r * count, want, 1e-5, k.isa);
            std::vector<float> alone(static_cast<size_t>(count));
            pass.first_row = r;
            pass.n_rows = 1;
            k.mixers->conv_silu(pass, alone.data(), 0);
            expect_same_bits(alone.data(), got.data() + r * count, count, k.isa);
          }
          return got;
        });
      }
    }
  }
}

TEST(Mixers, WriteAndNormIsTheWriteAndTheNorm) {
  for (const int n : {1, 7, 16, 17, 100, 256}) {
    Rng rng(static_cast<uint64_t>(n));
    const std::vector<float> x = rng.normals(n, 1.0f), y = rng.normals(n, 1.0f), norm = rng.normals(n, 0.2f, 1.0f);
    for (const bool write : {false, true}) {
      expect_one_answer(fmt::format("{} values", n), [&](const Kernels& k) {
        std::vector<float> got = x, normed(static_cast<size_t>(n)), want = x, want_normed(static_cast<size_t>(n));
        k.mixers->write_and_norm(got.data(), write ? y.data() : nullptr, 0.7f, norm.data(), n, 1e-6f, normed.data());
        if (write) k.add_scaled(want.data(), y.data(), 0.7f, n);
        k.rms_norm(want.data(), norm.data(), n, 1e-6f, want_normed.data());
        expect_same_bits(got.data(), want.data(), n, k.isa);
        expect_same_bits(normed.data(), want_normed.data(), n, k.isa);
        return normed;
      });
    }
  }
}

}  // namespace strata::test
