// Any weights times any rows: few rows and a decoded tile give the same bits, as do all instruction sets that fuse,
// nothing outside the given memory is touched, and where everything is finite the result is the sum that the judge's
// decoding gives. Input: format, blocks of a row, weights, rows, kind of the values; then bytes, taken round and round.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "cpu/dots.h"
#include "cpu/kernels.h"
#include "quant/reference.h"

namespace {

using strata::ActBlock;
using strata::DecodedBlock;
using strata::DotKernel;
using strata::Kernels;

constexpr size_t kHead = 5;

struct Case {
  strata::DType type;
  int n_w, n_x;
  int64_t n;
  std::vector<std::byte> weights;
  std::vector<std::vector<float>> rows;

  strata::QuantRows quant_rows(int first, int count) const {
    const size_t bytes = strata::row_bytes(type, n);
    return {weights.data() + static_cast<size_t>(first) * bytes, bytes, weights.data() + weights.size(), count, n};
  }
};

bool same(float a, float b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

Case read_case(const uint8_t* data, size_t size) {
  const strata::DotKernels& dots = *strata::available_kernels().back()->dots;
  Case c;
  c.type = dots.kernels[data[0] % dots.n_kernels].type;
  const strata::TypeTraits& t = strata::traits(c.type);
  c.n = int64_t{1 + data[1] % (t.block_elems == 256 ? 3 : 18)} * t.block_elems;
  c.n_w = 1 + data[2] % 9;
  c.n_x = 1 + data[3] % 9;
  size_t at = kHead;
  const auto next = [&] {
    if (at == size) at = kHead;
    return data[at++];
  };
  c.weights.resize(strata::row_bytes(c.type, c.n) * static_cast<size_t>(c.n_w));
  for (std::byte& b : c.weights) b = std::byte{next()};
  for (int r = 0; r < c.n_x; ++r) {
    std::vector<float>& row = c.rows.emplace_back(static_cast<size_t>(c.n));
    for (float& x : row) {
      if (data[4] % 2 == 0) {
        x = static_cast<float>(static_cast<int8_t>(next())) * static_cast<float>(1 + next());
      } else {
        uint8_t bits[4] = {next(), next(), next(), next()};
        std::memcpy(&x, bits, sizeof x);
      }
    }
  }
  return c;
}

struct Rows {
  std::vector<ActBlock> blocks;
  std::vector<const ActBlock*> at;
};

Rows quantised(const Case& c, const Kernels& k, strata::ActOrder order) {
  Rows rows;
  const auto n_blocks = static_cast<size_t>(strata::act_blocks(c.n));
  rows.blocks.resize(static_cast<size_t>(c.n_x) * n_blocks);
  for (int r = 0; r < c.n_x; ++r) {
    ActBlock* to = rows.blocks.data() + static_cast<size_t>(r) * n_blocks;
    k.dots->quantise(c.rows[static_cast<size_t>(r)].data(), c.n, order, to);
    rows.at.push_back(to);
  }
  return rows;
}

std::vector<float> run(const Case& c, const Kernels& k, const DotKernel& kernel, const Rows& x) {
  std::vector<float> few(static_cast<size_t>(c.n_x * c.n_w)), many(few.size());
  const strata::QuantRows w = c.quant_rows(0, c.n_w);
  kernel.dot_rows(w, x.at.data(), c.n_x, few.data(), c.n_w);
  std::vector<DecodedBlock> tile(static_cast<size_t>(c.n_w * strata::act_blocks(c.n)));
  kernel.decode_rows(w, tile.data());
  kernel.dot_decoded(tile.data(), c.n_w, x.at.data(), c.n_x, c.n, many.data(), c.n_w);
  for (size_t i = 0; i < few.size(); ++i) {
    CHECK(same(few[i], many[i]), "{} {} n {}: {} of few rows, {} of a tile", k.isa, strata::type_name(c.type), c.n,
          few[i], many[i]);
  }
  return few;
}

// Value i of a row as it was rounded.
double rounded(const ActBlock* row, strata::ActOrder order, int64_t i) {
  const ActBlock& block = row[i / strata::kActElems];
  const int64_t g = i % strata::kActElems / 16, k = i % 16;
  const int64_t at = order == strata::ActOrder::quads ? k / 4 * 64 + g * 4 + k % 4 : k % 4 * 64 + g * 4 + k / 4;
  return static_cast<double>(block.codes[at]) * static_cast<double>(block.scale[g]);
}

// A bound as in the tests: so many roundings of what the terms amount to. Of an offset and a code that is the scale and
// the offset of the group, with the largest code, 31.
void check_sums(const Case& c, const Kernels& k, const DotKernel& kernel, const Rows& x,
                const std::vector<float>& got) {
  const double roundings = 4 * static_cast<double>(strata::act_blocks(c.n)) + 11;
  std::vector<float> w(static_cast<size_t>(c.n));
  std::vector<DecodedBlock> decoded(static_cast<size_t>(strata::act_blocks(c.n)));
  for (int j = 0; j < c.n_w; ++j) {
    const strata::QuantRows row = c.quant_rows(j, 1);
    strata::dequantise_row(c.type, row.w, c.n, w.data());
    kernel.decode_rows(row, decoded.data());
    for (int r = 0; r < c.n_x; ++r) {
      double sum = 0, size = 0, highest = 0;
      for (int64_t i = 0; i < c.n; ++i) {
        const double value = rounded(x.at[static_cast<size_t>(r)], kernel.order, i);
        const auto weight = static_cast<double>(w[static_cast<size_t>(i)]);
        double most = std::abs(weight);
        if (kernel.has_min) {
          const DecodedBlock& block = decoded[static_cast<size_t>(i / strata::kActElems)];
          const int64_t g = i % strata::kActElems / 16;
          most = 31 * std::abs(static_cast<double>(block.scale[g])) + std::abs(static_cast<double>(block.min[g]));
        }
        sum += value * weight;
        size += std::abs(value) * most;
        highest = std::max({highest, std::abs(value), most});
      }
      // Beyond, what is made of a group may be infinite although the result is not.
      if (!(size < 1e30 && highest < 1e30)) continue;
      const auto at = static_cast<size_t>(r * c.n_w + j);
      CHECK(std::abs(static_cast<double>(got[at]) - sum) <= roundings * 0x1p-24 * size + 0x1p-126,
            "{} {} n {} row {} weight {}: {} instead of {}", k.isa, strata::type_name(c.type), c.n, r, j, got[at], sum);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size <= kHead) return 0;
  const Case c = read_case(data, size);
  std::vector<float> fused;
  for (const Kernels* k : strata::available_kernels()) {
    const DotKernel* kernel = k->dots->find(c.type);
    CHECK(kernel != nullptr, "{} has no {}", k->isa, strata::type_name(c.type));
    const Rows x = quantised(c, *k, kernel->order);
    const std::vector<float> got = run(c, *k, *kernel, x);
    check_sums(c, *k, *kernel, x, got);
    if (std::string_view(k->isa) == "generic") continue;
    if (fused.empty()) fused = got;
    for (size_t i = 0; i < got.size(); ++i) {
      CHECK(same(got[i], fused[i]), "{} {} n {} result {}: {} instead of {}", k->isa, strata::type_name(c.type), c.n, i,
            got[i], fused[i]);
    }
  }
  return 0;
}
