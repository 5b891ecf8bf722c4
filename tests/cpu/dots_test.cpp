#include "cpu/dots.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/dot_case.h"

namespace strata::test {

constexpr int64_t kInputs[] = {32, 64, 96, 128, 256, 320, 640, 2560};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// run(isa, kernels, format) for every instruction set of this machine and every format.
template <class F>
void for_each_format(F run) {
  for (const Kernels* k : available_kernels()) {
    for (int i = 0; i < k->dots->n_kernels; ++i) {
      const DotKernel& kernel = k->dots->kernels[i];
      SCOPED_TRACE(fmt::format("{} {}", k->isa, type_name(kernel.type)));
      run(*k, kernel);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

bool whole_blocks(DType type, int64_t n) {
  return n % traits(type).block_elems == 0;
}

// Rows whose groups differ in size by up to 10^4.
std::vector<float> uneven_rows(uint64_t seed, int n_x, int64_t n) {
  Rng rng(seed);
  std::vector<float> x = rng.normals(static_cast<int>(n_x * n), 1.0f);
  for (size_t i = 0; i < x.size(); i += 16) {
    const float size = std::pow(10.0f, static_cast<float>(rng.below(5) - 2));
    for (size_t k = i; k < i + 16; ++k) x[k] *= size;
  }
  return x;
}

TEST(Dots, HaveAKernelForEveryBlockFormat) {
  for (const Kernels* k : available_kernels()) {
    for (const TypeTraits& t : all_types()) {
      const DotKernel* kernel = k->dots->find(t.type);
      ASSERT_EQ(kernel != nullptr, t.block_elems > 1) << k->isa << " " << t.name;
      EXPECT_TRUE(kernel == nullptr || kernel->type == t.type);
    }
  }
}

TEST(Dots, RoundEachGroupOfARowToItsOwnScale) {
  for (const Kernels* k : available_kernels()) {
    for (const int64_t n : kInputs) {
      const std::vector<float> x = uneven_rows(static_cast<uint64_t>(n), 1, n);
      for (const ActOrder order : {ActOrder::quads, ActOrder::spread}) {
        const DotInputs in(*k->dots, order, n, x);
        for (int64_t g = 0; g < n; g += 16) {
          float highest = 0;
          int sum = 0;
          for (int64_t i = g; i < g + 16; ++i) highest = std::max(highest, std::abs(x[static_cast<size_t>(i)]));
          for (int64_t i = g; i < g + 16; ++i) {
            sum += in.code(0, i);
            // Half a step, and two roundings of up to 127 steps.
            ASSERT_NEAR(in.value(0, i), x[static_cast<size_t>(i)], in.scale(0, i) * (0.5 + 127 * 0x1p-22))
                << k->isa << " " << i;
          }
          const ActBlock& block = in.rows[0][g / kActElems];
          const int64_t lane = g % kActElems / 16;
          ASSERT_EQ(block.scale[lane], highest / 127.0f);
          ASSERT_EQ(block.start[lane], -128 * sum);
          ASSERT_EQ(block.sum[lane], block.scale[lane] * static_cast<float>(sum));
        }
      }
    }
  }
}

TEST(Dots, RoundRowsAlikeWithEveryInstructionSet) {
  for (const Kernels* k : available_kernels()) {
    for (const int64_t n : kInputs) {
      std::vector<float> x = uneven_rows(3, 1, n);
      for (int64_t i = 0; i < 16; ++i)
        x[static_cast<size_t>(i)] = static_cast<float>(i) + 0.5f;  // halves between steps
      x[15] = 127;
      for (const ActOrder order : {ActOrder::quads, ActOrder::spread}) {
        const DotInputs want(*available_kernels().back()->dots, order, n, x), got(*k->dots, order, n, x);
        ASSERT_EQ(std::memcmp(got.blocks.data(), want.blocks.data(), want.blocks.size() * sizeof(ActBlock)), 0)
            << k->isa << " " << n;
      }
    }
  }
}

TEST(Dots, FillABlockBeyondARowWithZerosOrWithTheRowAgain) {
  for (const Kernels* k : available_kernels()) {
    for (const int64_t n : {32, 64, 96, 128, 320}) {
      const DotInputs in(*k->dots, ActOrder::quads, n, uneven_rows(4, 1, n));
      const ActBlock& last = in.rows[0][act_blocks(n) - 1];
      const int64_t used = n % kActElems / 16;
      const bool again = n == 64 || n == 128;
      for (int64_t lane = used; lane < kActGroups; ++lane) {
        const int64_t like = lane % used;
        EXPECT_EQ(last.scale[lane], again ? last.scale[like] : 0) << k->isa << " " << n;
        EXPECT_EQ(last.start[lane], again ? last.start[like] : 0);
        EXPECT_EQ(last.sum[lane], again ? last.sum[like] : 0);
        for (int64_t i = 0; i < 4; ++i) {
          for (int64_t b = 0; b < 4; ++b) {
            EXPECT_EQ(last.codes[64 * i + 4 * lane + b], again ? last.codes[64 * i + 4 * like + b] : 0);
          }
        }
      }
    }
  }
}

TEST(Dots, AreTheSumsOfTheRoundedRowForEveryFormat) {
  for_each_format([](const Kernels& k, const DotKernel& kernel) {
    for (const int64_t n : kInputs) {
      if (!whole_blocks(kernel.type, n)) continue;
      const DotWeights w(kernel.type, 7, n, static_cast<uint64_t>(n));
      const DotInputs x(*k.dots, kernel.order, n, uneven_rows(5, 5, n));
      ASSERT_NO_FATAL_FAILURE(expect_exact_dots(dot_rows(kernel, w, x), w, x, kernel.has_min, fmt::format("n {}", n)));
    }
  });
}

TEST(Dots, OfRowsAndOfADecodedTileAreTheSameBitsForAnyNumberOfThem) {
  for_each_format([](const Kernels& k, const DotKernel& kernel) {
    for (const int64_t n : kInputs) {
      if (!whole_blocks(kernel.type, n) || n > 640) continue;
      const DotWeights all(kernel.type, 9, n, 6);
      const std::vector<float> rows = uneven_rows(7, 13, n);
      const std::vector<float> want = dot_rows(kernel, all, DotInputs(*k.dots, kernel.order, n, rows));
      for (int n_w = 1; n_w <= 9; ++n_w) {
        DotWeights w = all;
        w.n_w = n_w;
        w.bytes.resize(row_bytes(kernel.type, n) * static_cast<size_t>(n_w));
        w.bytes.shrink_to_fit();
        for (int n_x = 1; n_x <= 13; ++n_x) {
          const DotInputs x(*k.dots, kernel.order, n, {rows.begin(), rows.begin() + n_x * n});
          const std::vector<float> few = dot_rows(kernel, w, x), tile = dot_decoded(kernel, w, x);
          for (int r = 0; r < n_x; ++r) {
            const auto at = static_cast<size_t>(r * n_w);
            ASSERT_EQ(std::memcmp(&few[at], &want[static_cast<size_t>(9 * r)], static_cast<size_t>(n_w) * 4), 0)
                << "n " << n << " n_w " << n_w << " n_x " << n_x << " row " << r;
            ASSERT_EQ(std::memcmp(&tile[at], &few[at], static_cast<size_t>(n_w) * 4), 0)
                << "decoded, n " << n << " n_w " << n_w << " n_x " << n_x << " row " << r;
          }
        }
      }
    }
  });
}

TEST(Dots, AreTheSameBitsWithEveryInstructionSetThatFuses) {
  const Kernels& first = *available_kernels().front();
  for_each_format([&](const Kernels& k, const DotKernel& kernel) {
    if (std::string_view(k.isa) == "generic") return;
    for (const int64_t n : kInputs) {
      if (!whole_blocks(kernel.type, n)) continue;
      const DotWeights w(kernel.type, 5, n, 8);
      const std::vector<float> rows = uneven_rows(9, 3, n);
      const DotKernel& other = *first.dots->find(kernel.type);
      const std::vector<float> want = dot_rows(other, w, DotInputs(*first.dots, other.order, n, rows));
      const std::vector<float> got = dot_rows(kernel, w, DotInputs(*k.dots, kernel.order, n, rows));
      expect_same_bits(got.data(), want.data(), static_cast<int>(want.size()), fmt::format("n {}", n));
    }
  });
}

// The largest and smallest codes with the largest rows: integer sums reach their ends.
TEST(Dots, HoldTheLargestCodes) {
  for_each_format([](const Kernels& k, const DotKernel& kernel) {
    const int64_t n = whole_blocks(kernel.type, 320) ? 320 : 256;
    std::vector<float> rows(static_cast<size_t>(4 * n));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = i / static_cast<size_t>(n) % 2 == 0 ? 127.0f : -127.0f;
    for (size_t i = static_cast<size_t>(2 * n); i < rows.size(); i += 2) rows[i] = -rows[i];
    const DotInputs x(*k.dots, kernel.order, n, rows);
    for (const uint8_t value : {0x00, 0xff, 0x7f, 0x80, 0xf0, 0x0f, 0x88, 0x77}) {
      DotWeights w(kernel.type, 3, n, 10);
      w.fill_codes(value);
      const std::vector<float> got = dot_rows(kernel, w, x);
      ASSERT_NO_FATAL_FAILURE(expect_exact_dots(got, w, x, kernel.has_min, fmt::format("codes {:#x}", value)));
      const std::vector<float> tile = dot_decoded(kernel, w, x);
      expect_same_bits(tile.data(), got.data(), static_cast<int>(got.size()), "decoded");
    }
  });
}

// Scales of one byte: all 256 of them, where the weights are finite.
TEST(Dots, DecodeEveryScaleOfAByte) {
  for_each_format([](const Kernels& k, const DotKernel& kernel) {
    if (kernel.type != DType::MXFP4 && kernel.type != DType::NVFP4) return;
    const int64_t n = traits(kernel.type).block_elems;
    const size_t scales = kernel.type == DType::MXFP4 ? 1 : 4;
    const DotInputs x(*k.dots, kernel.order, n, uneven_rows(16, 2, n));
    for (int code = 0; code < 256; ++code) {
      DotWeights w(kernel.type, 1, n, 17);
      for (size_t i = 0; i < scales; ++i) w.bytes[i] = static_cast<std::byte>(code);
      const std::vector<float> weights = w.decoded(0);
      if (std::any_of(weights.begin(), weights.end(), [](float v) { return !(std::abs(v) < 1e30f); })) continue;
      const std::vector<float> got = dot_rows(kernel, w, x);
      ASSERT_NO_FATAL_FAILURE(expect_exact_dots(got, w, x, kernel.has_min, fmt::format("scale {:#x}", code)));
    }
  });
}

TEST(Dots, TakeRowsOfZerosTinyAndHugeValues) {
  for_each_format([](const Kernels& k, const DotKernel& kernel) {
    const int64_t n = 256;
    std::vector<float> rows(static_cast<size_t>(4 * n));
    for (int64_t i = 0; i < n; ++i) {
      rows[static_cast<size_t>(n + i)] = static_cast<float>(i) * std::numeric_limits<float>::denorm_min();
      rows[static_cast<size_t>(2 * n + i)] = static_cast<float>(i - 100) * 1e-3f;
      rows[static_cast<size_t>(3 * n + i)] = 1e-30f;
    }
    rows[static_cast<size_t>(2 * n + 37)] = 1e30f;
    const DotWeights w(kernel.type, 5, n, 11);
    const DotInputs x(*k.dots, kernel.order, n, rows);
    const std::vector<float> got = dot_rows(kernel, w, x);
    for (int j = 0; j < 10; ++j) EXPECT_EQ(got[static_cast<size_t>(j)], 0.0f);
    ASSERT_NO_FATAL_FAILURE(expect_exact_dots(got, w, x, kernel.has_min, "rows"));
    EXPECT_GT(std::abs(got[10]) + std::abs(got[11]) + std::abs(got[12]), 1e20f);
  });
}

TEST(Dots, AreNotNumbersExactlyInTheRowsThatHoldOneThatIsNone) {
  for_each_format([](const Kernels& k, const DotKernel& kernel) {
    for (const int64_t n : {64, 256, 640}) {
      if (!whole_blocks(kernel.type, n)) continue;
      const DotWeights w(kernel.type, 6, n, 12);
      std::vector<float> rows = uneven_rows(13, 6, n);
      const std::vector<float> clean = dot_rows(kernel, w, DotInputs(*k.dots, kernel.order, n, rows));
      rows[static_cast<size_t>(1 * n + 5)] = NAN;
      rows[static_cast<size_t>(3 * n + n - 1)] = kInfinity;
      rows[static_cast<size_t>(4 * n + 20)] = -kInfinity;
      const DotInputs x(*k.dots, kernel.order, n, rows);
      const std::vector<float> got = dot_rows(kernel, w, x), tile = dot_decoded(kernel, w, x);
      for (size_t i = 0; i < got.size(); ++i) {
        const size_t r = i / 6;
        if (r == 1 || r == 3 || r == 4) {
          EXPECT_TRUE(std::isnan(got[i]) && std::isnan(tile[i])) << "n " << n << " row " << r;
        } else {
          EXPECT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(clean[i])) << "n " << n << " row " << r;
        }
      }
    }
  });
}

// Weights that end where the memory ends are read from a copy; what lies behind, and beside the results, has no part in
// it.
TEST(Dots, DependOnNothingBehindTheLastRow) {
  for_each_format([](const Kernels& k, const DotKernel& kernel) {
    for (const int64_t n : kInputs) {
      if (!whole_blocks(kernel.type, n) || n > 640) continue;
      const int n_w = 5, n_x = 5, stride = n_w + 3;
      const DotWeights w(kernel.type, n_w, n, 14);
      const DotInputs x(*k.dots, kernel.order, n, uneven_rows(15, n_x, n));
      const std::vector<float> want = dot_rows(kernel, w, x);
      for (const uint8_t behind : {0x00, 0xff, 0x7c}) {
        std::vector<std::byte> memory = w.bytes;
        memory.resize(w.bytes.size() + 512, std::byte{behind});
        for (const size_t end : {w.bytes.size(), memory.size()}) {
          const QuantRows rows{memory.data(), row_bytes(kernel.type, n), memory.data() + end, n_w, n};
          std::vector<float> out(static_cast<size_t>(n_x * stride), 77.0f);
          kernel.dot_rows(rows, x.rows.data(), n_x, out.data(), stride);
          for (int r = 0; r < n_x; ++r) {
            expect_same_bits(&out[static_cast<size_t>(r * stride)], &want[static_cast<size_t>(r * n_w)], n_w, "row");
            for (int i = n_w; i < stride; ++i) EXPECT_EQ(out[static_cast<size_t>(r * stride + i)], 77.0f);
          }
        }
      }
    }
  });
}

}  // namespace strata::test
