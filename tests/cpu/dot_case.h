// A product of quantised weights and rows for one format: the weights, which may be extreme, the rows, and what the
// result has to be, in double, from the rounded rows and the judge's decoding of the weights.
#pragma once

#include <algorithm>
#include <vector>

#include "cpu/dots.h"
#include "cpu/kernels.h"
#include "ops/fixtures.h"
#include "quant/formats.h"
#include "tensor/tensor.h"

namespace strata::test {

// The bytes of a block that are not codes: scales, which must stay what they are for the values to be finite.
struct ScaleBytes {
  DType type;
  size_t from, to, from2, to2;
};
inline constexpr ScaleBytes kScaleBytes[] = {
    {DType::Q4_0, 0, 2, 0, 0},    {DType::Q4_1, 0, 4, 0, 0},     {DType::Q5_0, 0, 2, 0, 0},
    {DType::Q5_1, 0, 4, 0, 0},    {DType::Q8_0, 0, 2, 0, 0},     {DType::Q2_0, 0, 2, 0, 0},
    {DType::Q2_K, 0, 16, 80, 84}, {DType::Q3_K, 96, 110, 0, 0},  {DType::Q4_K, 0, 16, 0, 0},
    {DType::Q5_K, 0, 16, 0, 0},   {DType::Q6_K, 192, 210, 0, 0}, {DType::IQ1_S, 0, 2, 0, 0},
    {DType::IQ1_M, 48, 56, 0, 0}, {DType::IQ2_XXS, 0, 2, 0, 0},  {DType::IQ2_XS, 0, 2, 66, 74},
    {DType::IQ2_S, 0, 2, 74, 82}, {DType::IQ3_XXS, 0, 2, 0, 0},  {DType::IQ3_S, 0, 2, 106, 110},
    {DType::IQ4_NL, 0, 2, 0, 0},  {DType::IQ4_XS, 0, 8, 0, 0},   {DType::MXFP4, 0, 1, 0, 0},
    {DType::NVFP4, 0, 4, 0, 0},
};

// Weights in memory of exactly their size.
struct DotWeights {
  DType type;
  int n_w;
  int64_t n;
  std::vector<std::byte> bytes;

  DotWeights(DType t, int rows, int64_t inputs, uint64_t seed)
      : type(t), n_w(rows), n(inputs), bytes(row_bytes(t, inputs) * static_cast<size_t>(rows)) {
    random_blocks(type, seed, n / traits(type).block_elems * n_w, bytes.data());
  }
  // Every byte of the codes becomes `value`.
  void fill_codes(uint8_t value) {
    const auto block = static_cast<size_t>(traits(type).block_bytes);
    const ScaleBytes* keep = std::find_if(std::begin(kScaleBytes), std::end(kScaleBytes),
                                          [&](const ScaleBytes& s) { return s.type == type; });
    for (size_t i = 0; i < bytes.size(); ++i) {
      const size_t at = i % block;
      const bool scale = (at >= keep->from && at < keep->to) || (at >= keep->from2 && at < keep->to2);
      if (!scale) bytes[i] = std::byte{value};
    }
  }
  QuantRows rows() const { return {bytes.data(), row_bytes(type, n), bytes.data() + bytes.size(), n_w, n}; }
  std::vector<float> decoded(int j) const {
    std::vector<float> w(static_cast<size_t>(n));
    dequantise_row(type, rows().w + static_cast<size_t>(j) * rows().row_bytes, n, w.data());
    return w;
  }
};

// Rows of activations of n inputs, quantised.
struct DotInputs {
  int64_t n;
  ActOrder order;
  std::vector<ActBlock> blocks;
  std::vector<const ActBlock*> rows;

  DotInputs(const DotKernels& dots, ActOrder o, int64_t inputs, const std::vector<float>& x)
      : n(inputs), order(o), blocks(x.size() / static_cast<size_t>(inputs) * static_cast<size_t>(act_blocks(inputs))) {
    for (size_t r = 0; r < x.size() / static_cast<size_t>(n); ++r) {
      ActBlock* row = blocks.data() + r * static_cast<size_t>(act_blocks(n));
      const std::vector<float> exact(x.begin() + static_cast<int64_t>(r) * n,
                                     x.begin() + static_cast<int64_t>(r + 1) * n);
      dots.quantise(exact.data(), n, order, row);
      rows.push_back(row);
    }
  }
  int code(size_t r, int64_t i) const {
    const ActBlock& block = rows[r][i / kActElems];
    const int64_t group = i % kActElems / 16, k = i % 16;
    return block.codes[order == ActOrder::quads ? k / 4 * 64 + group * 4 + k % 4 : k % 4 * 64 + group * 4 + k / 4];
  }
  double scale(size_t r, int64_t i) const {
    return static_cast<double>(rows[r][i / kActElems].scale[i % kActElems / 16]);
  }
  double value(size_t r, int64_t i) const { return code(r, i) * scale(r, i); }
  int n_x() const { return static_cast<int>(rows.size()); }
};

inline std::vector<float> dot_rows(const DotKernel& kernel, const DotWeights& w, const DotInputs& x) {
  std::vector<float> out(static_cast<size_t>(x.n_x() * w.n_w));
  kernel.dot_rows(w.rows(), x.rows.data(), x.n_x(), out.data(), w.n_w);
  return out;
}
inline std::vector<float> dot_decoded(const DotKernel& kernel, const DotWeights& w, const DotInputs& x) {
  std::vector<float> out(static_cast<size_t>(x.n_x() * w.n_w));
  std::vector<DecodedBlock> tile(static_cast<size_t>(w.n_w * act_blocks(w.n)));
  kernel.decode_rows(w.rows(), tile.data());
  kernel.dot_decoded(tile.data(), w.n_w, x.rows.data(), x.n_x(), w.n, out.data(), w.n_w);
  return out;
}

// Each of the 16 lanes of a sum rounds at most twice for a scaled dot and twice for an offset in every block, six
// roundings make scales, offsets and the sums of activations, one is the judge's, and four steps fold the lanes; each
// is half a unit of the last place (2^-24) of what the terms amount to without their signs. For formats with an offset
// a term is code and offset apart, which may be more than their sum: the offset is the weight whose codes are zero.
// Tiny products may be lost below 2^-126.
inline void expect_exact_dots(const std::vector<float>& got, const DotWeights& w, const DotInputs& x, bool has_min,
                              const std::string& what) {
  const double roundings = 4 * static_cast<double>(act_blocks(w.n)) + 11;
  DotWeights offsets = w;
  offsets.fill_codes(0);
  for (int j = 0; j < w.n_w; ++j) {
    const std::vector<float> weights = w.decoded(j), offset = offsets.decoded(j);
    for (size_t r = 0; r < x.rows.size(); ++r) {
      double sum = 0, size = 0;
      for (int64_t i = 0; i < w.n; ++i) {
        const double value = static_cast<double>(weights[static_cast<size_t>(i)]),
                     zero = has_min ? static_cast<double>(offset[static_cast<size_t>(i)]) : 0;
        sum += x.value(r, i) * value;
        size += std::abs(x.value(r, i)) * (std::abs(value) + 2 * std::abs(zero));
      }
      const double tolerance = roundings * 0x1p-24 * size + 0x1p-126;
      ASSERT_NEAR(got[r * static_cast<size_t>(w.n_w) + static_cast<size_t>(j)], sum, tolerance)
          << what << " row " << r << " weight " << j;
    }
  }
}

}  // namespace strata::test
