// The recorded vectors of tests/data/quant: blocks of every format with the values they stand for.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/json.h"
#include "tensor/tensor.h"

namespace strata {

inline constexpr int64_t kVectorElems = 6 * 1280;

inline std::string read_data(const std::string& name) {
  std::ifstream file(STRATA_SOURCE_DIR "/tests/data/quant/" + name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<std::byte> read_blocks(const std::string& name) {
  const std::string text = read_data(name + ".blocks");
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

inline std::vector<float> read_floats(const std::string& name) {
  const std::string text = read_data(name + ".f32");
  std::vector<float> values(text.size() / sizeof(float));
  std::memcpy(values.data(), text.data(), values.size() * sizeof(float));
  return values;
}

struct Vector {
  std::string name;
  DType type;
  int block_elems, block_bytes;
  double relative_error;  // of the values against source.f32
};

inline std::vector<Vector> all_vectors() {
  std::vector<Vector> out;
  std::string rest = read_data("vectors.jsonl");
  for (size_t end; (end = rest.find('\n')) != std::string::npos; rest.erase(0, end + 1)) {
    const auto line = parse_json(rest.substr(0, end), "vectors.jsonl");
    if (!line.ok()) {
      ADD_FAILURE() << line.status().text();
      break;
    }
    out.push_back({(*line)["name"], DType{(*line)["ggml_type"].get<uint32_t>()}, (*line)["block_elements"],
                   (*line)["block_bytes"], (*line)["relative_rms_error"]});
  }
  return out;
}

inline double relative_error(const std::vector<float>& values, const std::vector<float>& wanted) {
  double error = 0;
  double total = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double difference = static_cast<double>(values[i]) - static_cast<double>(wanted[i]);
    error += difference * difference;
    total += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
  }
  return std::sqrt(error / total);
}

}  // namespace strata
