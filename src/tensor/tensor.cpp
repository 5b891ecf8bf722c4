#include "tensor/tensor.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace strata {
namespace {

constexpr TypeTraits kTypes[] = {
    {DType::F32, "F32", 1, 4},
    {DType::F16, "F16", 1, 2},
    {DType::BF16, "BF16", 1, 2},
    {DType::Q4_0, "Q4_0", 32, 18},
    {DType::Q4_1, "Q4_1", 32, 20},
    {DType::Q5_0, "Q5_0", 32, 22},
    {DType::Q5_1, "Q5_1", 32, 24},
    {DType::Q8_0, "Q8_0", 32, 34},
    {DType::Q2_K, "Q2_K", 256, 84},
    {DType::Q3_K, "Q3_K", 256, 110},
    {DType::Q4_K, "Q4_K", 256, 144},
    {DType::Q5_K, "Q5_K", 256, 176},
    {DType::Q6_K, "Q6_K", 256, 210},
    {DType::IQ1_S, "IQ1_S", 256, 50},
    {DType::IQ1_M, "IQ1_M", 256, 56},
    {DType::IQ2_XXS, "IQ2_XXS", 256, 66},
    {DType::IQ2_XS, "IQ2_XS", 256, 74},
    {DType::IQ2_S, "IQ2_S", 256, 82},
    {DType::IQ3_XXS, "IQ3_XXS", 256, 98},
    {DType::IQ3_S, "IQ3_S", 256, 110},
    {DType::IQ4_NL, "IQ4_NL", 32, 18},
    {DType::IQ4_XS, "IQ4_XS", 256, 136},
    {DType::Q2_0, "Q2_0", 64, 18},
    {DType::MXFP4, "MXFP4", 32, 17},
    {DType::NVFP4, "NVFP4", 64, 36},
};

}  // namespace

std::span<const TypeTraits> all_types() {
  return kTypes;
}

const TypeTraits* find_type(uint32_t gguf_id) {
  const auto* it = std::find_if(std::begin(kTypes), std::end(kTypes),
                                [&](const TypeTraits& t) { return static_cast<uint32_t>(t.type) == gguf_id; });
  return it == std::end(kTypes) ? nullptr : it;
}

const TypeTraits* find_type(std::string_view name) {
  const auto* it =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeTraits& t) { return t.name == name; });
  return it == std::end(kTypes) ? nullptr : it;
}

const TypeTraits& traits(DType type) {
  const TypeTraits* t = find_type(static_cast<uint32_t>(type));
  CHECK(t != nullptr, "type id {}", static_cast<uint32_t>(type));
  return *t;
}

const char* type_name(DType type) {
  return traits(type).name;
}

Shape Shape::of(std::initializer_list<int64_t> dims) {
  CHECK(dims.size() >= 1 && dims.size() <= 4, "{} dimensions", dims.size());
  Shape shape;
  std::copy(dims.begin(), dims.end(), shape.ne.begin());
  shape.n_dims = static_cast<int>(dims.size());
  return shape;
}

Result<size_t> checked_bytes(DType type, const Shape& shape) {
  const TypeTraits& t = traits(type);
  if (shape.n_dims < 1 || shape.n_dims > 4) {
    return Status{Code::corrupt, fmt::format("has {} dimensions, expected 1 to 4", shape.n_dims)};
  }
  for (size_t i = 0; i < shape.ne.size(); ++i) {
    if (shape.ne[i] < 1) {
      return Status{Code::corrupt, fmt::format("dimension {} is {}, expected at least 1", i, shape.ne[i])};
    }
  }
  if (shape.ne[0] % t.block_elems != 0) {
    return Status{Code::corrupt, fmt::format("rows of {} values are not a whole number of {} blocks of {} values",
                                             shape.ne[0], t.name, t.block_elems)};
  }
  int64_t bytes = shape.ne[0] / t.block_elems;
  int64_t elems = shape.ne[0];
  bool overflow = __builtin_mul_overflow(bytes, t.block_bytes, &bytes);
  for (size_t i = 1; i < shape.ne.size(); ++i) {
    overflow |= __builtin_mul_overflow(bytes, shape.ne[i], &bytes);
    overflow |= __builtin_mul_overflow(elems, shape.ne[i], &elems);
  }
  if (overflow) {
    return Status{Code::corrupt, fmt::format("the shape {} has more bytes than 63 bits can count", shape.text())};
  }
  return static_cast<size_t>(bytes);
}

std::string Shape::text() const {
  std::string out;
  for (int i = 0; i < n_dims; ++i) out += (i ? " x " : "") + std::to_string(ne[static_cast<size_t>(i)]);
  return out;
}

}  // namespace strata
