// Types, shapes and views of tensors. Shapes are in file order: ne[0] is the fastest dimension (the input width of a
// matrix).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace strata {

// Numbers are the type ids of GGUF files.
enum class DType : uint32_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q2_K = 10,
  Q3_K = 11,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  IQ2_XXS = 16,
  IQ2_XS = 17,
  IQ3_XXS = 18,
  IQ1_S = 19,
  IQ4_NL = 20,
  IQ3_S = 21,
  IQ2_S = 22,
  IQ4_XS = 23,
  IQ1_M = 29,
  BF16 = 30,
  MXFP4 = 39,
  NVFP4 = 40,
  Q2_0 = 42,
};

struct TypeTraits {
  DType type;
  const char* name;  // as printed and typed: "IQ3_XXS"
  int block_elems;   // a row is a whole number of blocks
  int block_bytes;
};

std::span<const TypeTraits> all_types();
const TypeTraits* find_type(uint32_t gguf_id);       // null: a type this build does not know
const TypeTraits* find_type(std::string_view name);  // exact, upper case
const TypeTraits& traits(DType type);
const char* type_name(DType type);

// Bytes of one row of `elems` values; elems must be a multiple of the block.
inline size_t row_bytes(DType type, int64_t elems) {
  const TypeTraits& t = traits(type);
  return static_cast<size_t>(elems / t.block_elems) * static_cast<size_t>(t.block_bytes);
}

struct Shape {
  std::array<int64_t, 4> ne{1, 1, 1, 1};
  int n_dims = 0;

  static Shape of(std::initializer_list<int64_t> dims);  // 1 to 4 of them
  int64_t elems() const { return ne[0] * ne[1] * ne[2] * ne[3]; }
  int64_t rows() const { return ne[1] * ne[2] * ne[3]; }
  std::string text() const;  // "2560 x 640 x 512"
  bool operator==(const Shape&) const = default;
};

// Bytes of a whole tensor whose shape came from outside: fails on a dimension below 1, a row that is not a whole number
// of blocks, and a size beyond 63 bits, saying which.
Result<size_t> checked_bytes(DType type, const Shape& shape);

// A row-major float matrix somewhere: row r starts at data + r * stride.
struct MatF32 {
  float* data = nullptr;
  int rows = 0;
  int cols = 0;
  int64_t stride = 0;

  MatF32() = default;
  MatF32(float* d, int r, int c) : data(d), rows(r), cols(c), stride(c) {}
  MatF32(float* d, int r, int c, int64_t s) : data(d), rows(r), cols(c), stride(s) {}
  float* row(int r) const { return data + r * stride; }
  MatF32 rows_from(int first, int n) const { return {data + first * stride, n, cols, stride}; }
};

enum class Place : uint8_t { host, pinned, device };

// A matrix where it lives: shape.ne[0] inputs, shape.ne[1] outputs. Empty when data is null.
struct Weight {
  DType type = DType::F32;
  int64_t cols = 0;  // inputs
  int64_t rows = 0;  // outputs
  const std::byte* data = nullptr;
  float scale = 1.0f;  // external factor of NVFP4 tensors, 1 otherwise
  Place place = Place::host;

  explicit operator bool() const { return data != nullptr; }
  size_t bytes() const { return row_bytes(type, cols) * static_cast<size_t>(rows); }
  const std::byte* row(int64_t r) const { return data + row_bytes(type, cols) * static_cast<size_t>(r); }
};

}  // namespace strata
