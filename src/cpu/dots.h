// Quantised weights times rows. A row of activations is split into groups of 16 values, each rounded to int8 with its
// own float32 scale; a dot is the exact integer sum of every group, times the group's two scales, added up in 16 lanes
// along the row. Decoding a weight for one row or for many takes the same steps, so results are equal bit for bit
// whatever the number of rows, and on every instruction set that has fused multiply-add.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/tensor.h"

namespace strata {

inline constexpr int kActElems = 256;  // of a block: 16 groups of 16
inline constexpr int kActGroups = 16;

// 256 activations as the kernels of one order read them; lane l holds group l.
struct alignas(64) ActBlock {
  int8_t codes[kActElems];
  float scale[kActGroups];
  int32_t start[kActGroups];  // -128 times the sum of the codes of a group
  float sum[kActGroups];      // scale times the sum of the codes
};

// Where value k of a group lies in its lane: byte k % 4 of vector k / 4, or byte k / 4 of vector k % 4.
enum class ActOrder : uint8_t { quads, spread };
inline constexpr int kActOrders = 2;

// A row of weights of a tile after decoding, per 256 values.
struct alignas(64) DecodedBlock {
  uint8_t codes[kActElems];
  float scale[kActGroups];
  float min[kActGroups];  // added times the sum of the activations; formats without an offset leave it alone
};

inline int64_t act_blocks(int64_t n) {
  return (n + kActElems - 1) / kActElems;
}

// Matrix rows [0, n_w) at `w`, row_bytes apart, in a memory that ends at `end`.
struct QuantRows {
  const std::byte* w;
  size_t row_bytes;
  const std::byte* end;
  int n_w;
  int64_t n;  // inputs
};

struct DotKernel {
  DType type;
  ActOrder order;
  bool has_min;
  // out[r * out_stride + j] = x[r] . w_j
  void (*dot_rows)(const QuantRows& w, const ActBlock* const* x, int n_x, float* out, int64_t out_stride);
  // At most n_w * act_blocks(n) blocks.
  void (*decode_rows)(const QuantRows& w, DecodedBlock* to);
  // The same as dot_rows, from what decode_rows made of n_w rows of n inputs.
  void (*dot_decoded)(const DecodedBlock* w, int n_w, const ActBlock* const* x, int n_x, int64_t n, float* out,
                      int64_t out_stride);
};

inline constexpr uint32_t kMaxTypes = 64;  // ids of formats are below this

struct DotKernels {
  // x [n] to act_blocks(n) blocks, the rest of the last one zero (64 and 128 values: the same values again). Values
  // that are not finite make every result of their group not a number.
  void (*quantise)(const float* x, int64_t n, ActOrder order, ActBlock* to);
  const DotKernel* kernels;  // one for each block format
  int n_kernels;
  int8_t number[kMaxTypes] = {};  // of a type, from 1; 0: none

  const DotKernel* find(DType type) const {
    const auto id = static_cast<uint32_t>(type);
    return id < kMaxTypes && number[id] > 0 ? kernels + number[id] - 1 : nullptr;
  }
};

}  // namespace strata
