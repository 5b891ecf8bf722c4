// Resolves a table of expected tensors against a file and remembers everything that is wrong, so that one error can
// report missing and misshapen tensors together.
#pragma once

#include <deque>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "model/weights.h"
#include "tensor/gguf.h"

namespace strata {

class TensorBinder {
 public:
  TensorBinder(const Gguf& file, std::deque<std::vector<float>>& small) : file_(file), small_(small) {}

  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }
  // A matrix [rows, cols] of any type; its external scale, if the file has one, comes along.
  Weight matrix(const std::string& name, int64_t cols, int64_t rows);
  // A small tensor of any float or quantised type with `count` values in all, as float32.
  const float* floats(const std::string& name, int64_t count);
  // The same in rows of `cols`, where a transposed tensor would be another thing.
  const float* float_rows(const std::string& name, int64_t cols, int64_t rows);
  // One of the three stacks of experts [n_experts][rows][cols].
  ExpertTensors::Part experts(const std::string& name, int64_t cols, int64_t rows, int64_t n_experts);

  // Known, and deliberately not used: not reported as unused.
  void ignore(const std::string& name) { used_.insert(name); }

  void require(bool condition, const std::string& otherwise) {
    if (!condition) misshapen_.push_back(otherwise);
  }

  Status status() const;                    // one error for everything that was missing or misshapen
  std::vector<std::string> unused() const;  // tensors nobody asked for
  uint64_t float_bytes() const { return float_bytes_; }

 private:
  const GgufTensor* take(const std::string& name);
  const GgufTensor* expect(const std::string& name, std::initializer_list<int64_t> shape);
  const float* to_floats(const GgufTensor& tensor);
  const float* scales_of(const std::string& weight_name, int64_t count);

  const Gguf& file_;
  std::deque<std::vector<float>>& small_;
  std::unordered_set<std::string> used_;
  std::vector<std::string> missing_, misshapen_;
  uint64_t float_bytes_ = 0;
};

}  // namespace strata
