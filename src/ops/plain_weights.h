// Weights and temporaries of the plain twin: a matrix row in float32, a matrix times rows, a matrix that owns its
// memory.
#pragma once

#include <cstddef>
#include <vector>

#include "tensor/tensor.h"

namespace strata::plain {

// Row r of a weight, decoded and scaled.
void weight_row(const Weight& w, int64_t r, float* out);

// y = w x for every row of x; each row of w is decoded once.
void multiply(const Weight& w, MatF32 x, MatF32 y);

class OwnedMat {
 public:
  OwnedMat(int rows, int cols)
      : values_(static_cast<size_t>(rows) * static_cast<size_t>(cols)), mat_(values_.data(), rows, cols) {}
  OwnedMat(const OwnedMat&) = delete;
  OwnedMat& operator=(const OwnedMat&) = delete;

  MatF32 mat() const { return mat_; }
  float* row(int r) const { return mat_.row(r); }

 private:
  std::vector<float> values_;
  MatF32 mat_;
};

}  // namespace strata::plain
