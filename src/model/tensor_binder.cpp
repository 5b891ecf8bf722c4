#include "model/tensor_binder.h"

#include <algorithm>

#include "quant/reference.h"

namespace strata {
namespace {

// "a, b, c and 12 more": long lists are cut so that the error stays readable.
std::string listing(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) out += (i ? ", " : "") + names[i];
  if (names.size() > kShown) out += fmt::format(" and {} more", names.size() - kShown);
  return out;
}

std::string scale_name(const std::string& weight_name) {
  const std::string suffix = ".weight";
  if (!weight_name.ends_with(suffix)) return weight_name + ".scale";
  return weight_name.substr(0, weight_name.size() - suffix.size()) + ".scale";
}

}  // namespace

const GgufTensor* TensorBinder::take(const std::string& name) {
  const GgufTensor* tensor = file_.find_tensor(name);
  if (tensor != nullptr) used_.insert(name);
  return tensor;
}

const GgufTensor* TensorBinder::expect(const std::string& name, std::initializer_list<int64_t> shape) {
  const GgufTensor* tensor = take(name);
  if (tensor == nullptr) {
    missing_.push_back(name);
    return nullptr;
  }
  Shape want;
  want.n_dims = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), want.ne.begin());
  if (tensor->shape.ne == want.ne) return tensor;
  misshapen_.push_back(fmt::format("{} is {}, expected {}", name, tensor->shape.text(), want.text()));
  return nullptr;
}

const float* TensorBinder::to_floats(const GgufTensor& tensor) {
  std::vector<float>& out = small_.emplace_back(static_cast<size_t>(tensor.shape.elems()));
  const int64_t cols = tensor.shape.ne[0];
  for (int64_t r = 0; r < tensor.shape.rows(); ++r) {
    dequantise_row(tensor.type, tensor.data + static_cast<size_t>(r) * row_bytes(tensor.type, cols), cols,
                   out.data() + r * cols);
  }
  float_bytes_ += out.size() * sizeof(float);
  return out.data();
}

const float* TensorBinder::scales_of(const std::string& weight_name, int64_t count) {
  const std::string name = scale_name(weight_name);
  const GgufTensor* tensor = take(name);
  if (tensor == nullptr) return nullptr;
  if (tensor->shape.elems() != count) {
    misshapen_.push_back(fmt::format("{} has {} values, expected {}", name, tensor->shape.elems(), count));
    return nullptr;
  }
  return to_floats(*tensor);
}

Weight TensorBinder::matrix(const std::string& name, int64_t cols, int64_t rows) {
  const GgufTensor* tensor = expect(name, {cols, rows});
  if (tensor == nullptr) return {};
  const float* scale = scales_of(name, 1);
  return {tensor->type, cols, rows, tensor->data, scale ? *scale : 1.0f, Place::host};
}

const float* TensorBinder::floats(const std::string& name, int64_t count) {
  const GgufTensor* tensor = take(name);
  if (tensor == nullptr) {
    missing_.push_back(name);
    return nullptr;
  }
  if (tensor->shape.elems() != count) {
    misshapen_.push_back(fmt::format("{} is {}, expected {} values", name, tensor->shape.text(), count));
    return nullptr;
  }
  return to_floats(*tensor);
}

const float* TensorBinder::float_rows(const std::string& name, int64_t cols, int64_t rows) {
  const GgufTensor* tensor = expect(name, {cols, rows});
  return tensor != nullptr ? to_floats(*tensor) : nullptr;
}

ExpertTensors::Part TensorBinder::experts(const std::string& name, int64_t cols, int64_t rows, int64_t n_experts) {
  const GgufTensor* tensor = expect(name, {cols, rows, n_experts});
  if (tensor == nullptr) return {};
  return {tensor->type, tensor->data, row_bytes(tensor->type, cols) * static_cast<size_t>(rows),
          scales_of(name, n_experts)};
}

Status TensorBinder::status() const {
  if (missing_.empty() && misshapen_.empty()) return {};
  std::string what;
  if (!missing_.empty()) what += fmt::format("{} missing tensors: {}", missing_.size(), listing(missing_));
  if (!misshapen_.empty()) {
    what += fmt::format("{}{} tensors of the wrong shape: {}", what.empty() ? "" : "; ", misshapen_.size(),
                        listing(misshapen_));
  }
  return {Code::corrupt, fmt::format("{}: {}", file_.file_name(), what),
          "the file is incomplete or for another version"};
}

std::vector<std::string> TensorBinder::unused() const {
  std::vector<std::string> out;
  for (const GgufTensor& t : file_.tensors()) {
    if (!used_.contains(std::string(t.name))) out.emplace_back(t.name);
  }
  return out;
}

}  // namespace strata
