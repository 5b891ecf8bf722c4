// What the instructions of the kernels can do at best, to hold measured times against: products that never leave the
// registers, and memory that is read and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

struct RateKernels {
  // Multiply and add over and over; return how many products that were. The 16 numbers at `result` go in and results
  // come out, so that no compiler drops the work; what they are does not matter.
  int64_t (*int8_products)(int64_t rounds, int32_t* result);
  int64_t (*float_products)(int64_t rounds, float* result);
  // The exclusive or of the 8-byte words; bytes: a multiple of 1024, at least 1024.
  uint64_t (*read)(const std::byte* from, size_t bytes);
};

}  // namespace strata
