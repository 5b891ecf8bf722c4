#include "tensor/tensor.h"

#include <limits>
#include <set>

namespace strata {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(Types, HaveTheBlocksOfTheFileFormat) {
  const struct {
    uint32_t id;
    const char* name;
    int elems, bytes;
  } table[] = {
      {0, "F32", 1, 4},         {1, "F16", 1, 2},        {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},     {8, "Q8_0", 32, 34},      {10, "Q2_K", 256, 84},
      {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},  {13, "Q5_K", 256, 176},   {14, "Q6_K", 256, 210},
      {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74}, {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
      {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110}, {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136},
      {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},      {39, "MXFP4", 32, 17},    {40, "NVFP4", 64, 36},
      {42, "Q2_0", 64, 18},
  };
  EXPECT_EQ(all_types().size(), std::size(table));
  for (const auto& row : table) {
    const TypeTraits* found = find_type(row.id);
    ASSERT_NE(found, nullptr) << row.name;
    EXPECT_STREQ(found->name, row.name);
    EXPECT_EQ(found->block_elems, row.elems) << row.name;
    EXPECT_EQ(found->block_bytes, row.bytes) << row.name;
    EXPECT_EQ(find_type(std::string_view(row.name)), found);
    EXPECT_EQ(&traits(static_cast<DType>(row.id)), found);
    EXPECT_STREQ(type_name(found->type), row.name);
  }
}

TEST(Types, UnknownIdsAndNamesAreNull) {
  std::set<uint32_t> known;
  for (const TypeTraits& t : all_types()) known.insert(static_cast<uint32_t>(t.type));
  for (uint32_t id = 0; id < 1000; ++id) EXPECT_EQ(find_type(id) != nullptr, known.contains(id)) << id;
  EXPECT_EQ(find_type(0xFFFFFFFFU), nullptr);
  EXPECT_EQ(find_type("q4_0"), nullptr);
  EXPECT_EQ(find_type(""), nullptr);
}

TEST(Shapes, CountAndPrint) {
  const Shape shape = Shape::of({2560, 640, 512});
  EXPECT_EQ(shape.n_dims, 3);
  EXPECT_EQ(shape.elems(), int64_t{2560} * 640 * 512);
  EXPECT_EQ(shape.rows(), 640 * 512);
  EXPECT_EQ(shape.text(), "2560 x 640 x 512");
  EXPECT_EQ(Shape::of({48}).text(), "48");
  EXPECT_EQ(Shape::of({48}).rows(), 1);
  EXPECT_NE(Shape::of({48}), Shape::of({48, 1})) << "how many dimensions a file wrote is part of the shape";
}

TEST(Sizes, OfRowsAndTensors) {
  EXPECT_EQ(row_bytes(DType::Q6_K, 2560), 2100U);
  EXPECT_EQ(row_bytes(DType::IQ4_NL, 160), 90U);
  EXPECT_EQ(checked_bytes(DType::IQ4_NL, Shape::of({160, 320001536})).value(), 28800138240U);
  EXPECT_EQ(checked_bytes(DType::F32, Shape::of({3, 5, 7, 11})).value(), 4U * 3 * 5 * 7 * 11);
}

TEST(Sizes, RefuseShapesThatCannotBe) {
  const auto text = [](DType type, const Shape& shape) { return checked_bytes(type, shape).status().text(); };
  EXPECT_EQ(text(DType::F32, Shape::of({4, 0})), "dimension 1 is 0, expected at least 1");
  EXPECT_EQ(text(DType::F32, Shape::of({-4})), "dimension 0 is -4, expected at least 1");
  EXPECT_EQ(text(DType::F32, Shape{}), "has 0 dimensions, expected 1 to 4");
  EXPECT_EQ(text(DType::Q6_K, Shape::of({250})),
            "rows of 250 values are not a whole number of Q6_K blocks of 256 values");
  EXPECT_EQ(text(DType::Q2_0, Shape::of({96, 4})),
            "rows of 96 values are not a whole number of Q2_0 blocks of 64 values");
  for (const Shape& shape : {Shape::of({kMax}), Shape::of({1, kMax}), Shape::of({int64_t{1} << 32, int64_t{1} << 32}),
                             Shape::of({int64_t{1} << 21, int64_t{1} << 21, int64_t{1} << 21, 2})}) {
    EXPECT_EQ(text(DType::F32, shape), "the shape " + shape.text() + " has more bytes than 63 bits can count");
  }
  // 2^63 values in fewer bytes: the count of values must fit as well.
  EXPECT_FALSE(checked_bytes(DType::IQ1_S, Shape::of({int64_t{1} << 32, int64_t{1} << 31})).ok());
}

TEST(Views, StepByTheirStride) {
  float data[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const MatF32 view(data, 3, 2, 4);
  EXPECT_EQ(view.row(2)[1], 9);
  EXPECT_EQ(view.rows_from(1, 2).row(1)[0], 8);
  Weight weight{.type = DType::F32, .cols = 4, .rows = 3, .data = reinterpret_cast<const std::byte*>(data)};
  EXPECT_TRUE(weight);
  EXPECT_EQ(weight.bytes(), sizeof data);
  EXPECT_EQ(weight.row(1), reinterpret_cast<const std::byte*>(data + 4));
}

}  // namespace
}  // namespace strata
