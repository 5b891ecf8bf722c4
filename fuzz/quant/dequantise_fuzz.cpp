// Any bytes decode in any format, without reading or writing beyond the row and alike at every alignment.
// What is finite can be quantised again and stays finite. Input: format, shift, then blocks.
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "quant/quantise.h"
#include "quant/reference.h"

namespace {

void check_requantise(strata::DType type, std::vector<float> x) {
  for (float& v : x) v = std::isfinite(v) ? v : 0.0f;
  const auto n = static_cast<int64_t>(x.size());
  std::vector<std::byte> blocks(strata::row_bytes(type, n));
  strata::quantise_row(type, x.data(), n, blocks.data());
  if (type == strata::DType::F16 || type == strata::DType::BF16) return;  // may round to infinity
  strata::dequantise_row(type, blocks.data(), n, x.data());
  for (const float v : x) CHECK(std::isfinite(v), "{} of {}", v, strata::type_name(type));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const strata::TypeTraits& t = strata::all_types()[data[0] % strata::all_types().size()];
  const size_t shift = data[1] % 8;
  const size_t n_blocks = (size - 2) / static_cast<size_t>(t.block_bytes);
  const size_t bytes = n_blocks * static_cast<size_t>(t.block_bytes);
  const auto n = static_cast<int64_t>(n_blocks) * t.block_elems;

  std::vector<std::byte> row(bytes);
  std::vector<std::byte> shifted(shift + bytes);
  if (bytes > 0) {
    std::memcpy(row.data(), data + 2, bytes);
    std::memcpy(shifted.data() + shift, data + 2, bytes);
  }
  std::vector<float> values(static_cast<size_t>(n));
  std::vector<float> again(values.size());
  strata::dequantise_row(t.type, row.data(), n, values.data());
  strata::dequantise_row(t.type, shifted.data() + shift, n, again.data());
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    CHECK(std::memcmp(&values[i], &again[i], sizeof(float)) == 0, "{} element {} depends on alignment", t.name, i);
    sum += static_cast<double>(values[i]);
  }
  const std::vector<float> ones(values.size(), 1.0f);
  const double dot = strata::dot_reference(t.type, row.data(), ones.data(), n);
  CHECK(dot == sum || (std::isnan(dot) && std::isnan(sum)), "{}: dot {}, sum {}", t.name, dot, sum);
  if (strata::can_quantise(t.type)) check_requantise(t.type, values);
  return 0;
}
