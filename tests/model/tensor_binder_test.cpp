#include "model/tensor_binder.h"

#include <gtest/gtest.h>

#include "quant/quantise.h"
#include "tensor/gguf_writer.h"

namespace strata {
namespace {

// A file in memory, put together tensor by tensor.
class File {
 public:
  File& floats(const std::string& name, std::initializer_list<int64_t> ne, const std::vector<float>& values,
               DType type = DType::F32) {
    const int64_t cols = *ne.begin();
    std::vector<std::byte>& bytes =
        data_.emplace_back(row_bytes(type, cols) * (values.size() / static_cast<size_t>(cols)));
    for (size_t r = 0; r < values.size() / static_cast<size_t>(cols); ++r) {
      quantise_row(type, values.data() + r * static_cast<size_t>(cols), cols, bytes.data() + r * row_bytes(type, cols));
    }
    writer_.add_tensor(name, type, Shape::of(ne), bytes);
    return *this;
  }
  const Gguf& parse() {
    text_ = writer_.to_bytes().value();
    gguf_.emplace(Gguf::parse({{"model.gguf", std::as_bytes(std::span(text_))}}).value());
    return *gguf_;
  }

 private:
  GgufWriter writer_;
  std::deque<std::vector<std::byte>> data_;
  std::string text_;
  std::optional<Gguf> gguf_;
};

std::vector<float> numbers(int n, float first = 0) {
  std::vector<float> out;
  for (int i = 0; i < n; ++i) out.push_back(first + static_cast<float>(i));
  return out;
}

TEST(TensorBinder, AMatrixPointsIntoTheFile) {
  File f;
  const Gguf& g = f.floats("a.weight", {4, 3}, numbers(12)).parse();
  std::deque<std::vector<float>> small;
  TensorBinder b(g, small);
  const Weight w = b.matrix("a.weight", 4, 3);
  EXPECT_EQ(w.type, DType::F32);
  EXPECT_EQ(w.cols, 4);
  EXPECT_EQ(w.rows, 3);
  EXPECT_EQ(w.data, g.find_tensor("a.weight")->data);
  EXPECT_EQ(w.scale, 1.0f);
  EXPECT_TRUE(b.status().ok());
  EXPECT_TRUE(small.empty());
}

TEST(TensorBinder, AVectorMayStandForAMatrixOfOneRow) {
  File f;
  const Gguf& g = f.floats("a", {4}, numbers(4)).floats("b", {4, 1}, numbers(4)).parse();
  std::deque<std::vector<float>> small;
  TensorBinder b(g, small);
  EXPECT_TRUE(b.matrix("a", 4, 1));
  EXPECT_TRUE(b.matrix("b", 4, 1));
  EXPECT_TRUE(b.status().ok());
}

TEST(TensorBinder, AnExternalScaleComesAlongAndCountsAsUsed) {
  File f;
  const Gguf& g = f.floats("a.weight", {4, 3}, numbers(12))
                      .floats("a.scale", {1}, {0.25f})
                      .floats("b", {4, 1}, numbers(4))
                      .floats("b.scale", {1}, {3})
                      .parse();
  std::deque<std::vector<float>> small;
  TensorBinder b(g, small);
  EXPECT_EQ(b.matrix("a.weight", 4, 3).scale, 0.25f);
  EXPECT_EQ(b.matrix("b", 4, 1).scale, 3.0f);
  EXPECT_TRUE(b.unused().empty());
}

TEST(TensorBinder, SmallTensorsOfEveryTypeBecomeFloats) {
  for (const DType type : {DType::F32, DType::F16, DType::BF16, DType::Q8_0}) {
    File f;
    std::vector<float> values(64);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(static_cast<int>(i) - 32) / 4;
    const Gguf& g = f.floats("v", {32, 2}, values, type).parse();
    std::deque<std::vector<float>> small;
    TensorBinder b(g, small);
    const float* got = b.floats("v", 64);
    ASSERT_NE(got, nullptr) << type_name(type);
    for (size_t i = 0; i < 64; ++i)
      EXPECT_NEAR(got[i], values[i], type == DType::Q8_0 ? 0.04f : 0.0f) << type_name(type) << " " << i;
    EXPECT_EQ(b.float_bytes(), 256u);
  }
}

TEST(TensorBinder, FloatsStayWhereTheyAreWhenMoreFollow) {
  File f;
  for (int i = 0; i < 100; ++i) f.floats(fmt::format("v{}", i), {2}, {static_cast<float>(i), 0});
  const Gguf& g = f.parse();
  std::deque<std::vector<float>> small;
  TensorBinder b(g, small);
  std::vector<const float*> got;
  for (int i = 0; i < 100; ++i) got.push_back(b.floats(fmt::format("v{}", i), 2));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(*got[static_cast<size_t>(i)], static_cast<float>(i));
}

TEST(TensorBinder, AStackOfExpertsTellsTheStrideAndOneScaleForEach) {
  File f;
  const Gguf& g = f.floats("e.weight", {32, 2, 3}, numbers(192), DType::Q8_0).floats("e.scale", {3}, {1, 2, 3}).parse();
  std::deque<std::vector<float>> small;
  TensorBinder b(g, small);
  const auto part = b.experts("e.weight", 32, 2, 3);
  EXPECT_EQ(part.type, DType::Q8_0);
  EXPECT_EQ(part.stride, 2u * 34);
  EXPECT_EQ(part.data, g.find_tensor("e.weight")->data);
  ASSERT_NE(part.scales, nullptr);
  EXPECT_EQ(part.scales[2], 3.0f);
}

TEST(TensorBinder, EverythingMissingAndMisshapenIsOneError) {
  File f;
  const Gguf& g =
      f.floats("a", {4, 3}, numbers(12)).floats("c", {5}, numbers(5)).floats("e", {4, 3, 2}, numbers(24)).parse();
  std::deque<std::vector<float>> small;
  TensorBinder b(g, small);
  EXPECT_FALSE(b.matrix("a", 3, 4));
  EXPECT_FALSE(b.matrix("b", 4, 3));
  EXPECT_EQ(b.floats("c", 4), nullptr);
  EXPECT_EQ(b.floats("d", 4), nullptr);
  EXPECT_EQ(b.experts("e", 4, 3, 7).data, nullptr);
  const Status s = b.status();
  EXPECT_EQ(s.code(), Code::corrupt);
  EXPECT_EQ(s.message(),
            "model.gguf: 2 missing tensors: b, d; 3 tensors of the wrong shape: a is 4 x 3, expected 3 x 4, c is 5, "
            "expected 4 values, "
            "e is 4 x 3 x 2, expected 4 x 3 x 7");
}

TEST(TensorBinder, AScaleOfTheWrongSizeIsAnError) {
  File f;
  const Gguf& g = f.floats("a.weight", {4, 3}, numbers(12))
                      .floats("a.scale", {2}, {1, 2})
                      .floats("e.weight", {4, 1, 2}, numbers(8))
                      .floats("e.scale", {3}, {1, 2, 3})
                      .parse();
  std::deque<std::vector<float>> small;
  TensorBinder b(g, small);
  b.matrix("a.weight", 4, 3);
  b.experts("e.weight", 4, 1, 2);
  EXPECT_NE(b.status().message().find("a.scale has 2 values, expected 1"), std::string::npos) << b.status().text();
  EXPECT_NE(b.status().message().find("e.scale has 3 values, expected 2"), std::string::npos);
}

TEST(TensorBinder, ALongListIsCut) {
  File f;
  const Gguf& g = f.floats("a", {1}, {0}).parse();
  std::deque<std::vector<float>> small;
  TensorBinder b(g, small);
  for (int i = 0; i < 1000; ++i) b.floats(fmt::format("missing.{}", i), 4);
  EXPECT_NE(b.status().message().find("1000 missing tensors: missing.0, "), std::string::npos);
  EXPECT_NE(b.status().message().find(" and 992 more"), std::string::npos);
  EXPECT_LT(b.status().message().size(), 300u);
}

TEST(TensorBinder, WhatNobodyAskedForIsListedUnlessIgnored) {
  File f;
  const Gguf& g = f.floats("a", {1}, {0}).floats("b", {1}, {0}).floats("c", {1}, {0}).floats("d", {1}, {0}).parse();
  std::deque<std::vector<float>> small;
  TensorBinder b(g, small);
  b.floats("a", 1);
  b.ignore("b");
  EXPECT_EQ(b.unused(), (std::vector<std::string>{"c", "d"}));
  EXPECT_TRUE(b.has("c"));
  EXPECT_FALSE(b.has("x"));
}

}  // namespace
}  // namespace strata
