#include "quant/quantise.h"

#include <set>

#include "quant/half.h"
#include "quant/reference.h"
#include "quant/vectors.h"

namespace strata {
namespace {

std::vector<float> there_and_back(DType type, const std::vector<float>& x) {
  const int64_t n = static_cast<int64_t>(x.size());
  std::vector<std::byte> blocks(row_bytes(type, n));
  quantise_row(type, x.data(), n, blocks.data());
  std::vector<float> out(x.size());
  dequantise_row(type, blocks.data(), n, out.data());
  return out;
}

template <class Check>
void for_each_quantisable(Check check) {
  for (const TypeTraits& t : all_types()) {
    if (!can_quantise(t.type)) continue;
    SCOPED_TRACE(t.name);
    check(t.type);
  }
}

TEST(Quantise, AllFormatsButThoseWithGridsCanBeMade) {
  const std::set<DType> grids = {DType::IQ1_S, DType::IQ1_M,   DType::IQ2_XXS, DType::IQ2_XS,
                                 DType::IQ2_S, DType::IQ3_XXS, DType::IQ3_S};
  for (const TypeTraits& t : all_types()) EXPECT_EQ(can_quantise(t.type), grids.count(t.type) == 0) << t.name;
}

TEST(Quantise, LosesHardlyMoreThanTheRecordedVectors) {
  const std::vector<float> source = read_floats("source");
  for (const Vector& v : all_vectors()) {
    if (!can_quantise(v.type)) continue;
    // Q5_K of the vectors searches scale and offset of a super-block together; the plain search here does not.
    EXPECT_LE(relative_error(there_and_back(v.type, source), source), 1.06 * v.relative_error) << v.name;
  }
}

TEST(Quantise, SixteenBitFormatsGiveTheRecordedBytes) {
  const std::vector<float> source = read_floats("source");
  for (const char* name : {"f16", "bf16"}) {
    const std::vector<std::byte> wanted = read_blocks(name);
    std::vector<std::byte> bytes(wanted.size());
    quantise_row(name[0] == 'f' ? DType::F16 : DType::BF16, source.data(), kVectorElems, bytes.data());
    EXPECT_EQ(bytes, wanted) << name;
  }
}

TEST(Quantise, Q8IsNeverFartherThanHalfAStepOfItsScale) {
  const std::vector<float> source = read_floats("source");
  const std::vector<float> values = there_and_back(DType::Q8_0, source);
  for (size_t block = 0; block < source.size(); block += 32) {
    float peak = 0;
    for (size_t i = block; i < block + 32; ++i) peak = std::max(peak, std::fabs(source[i]));
    // Half a step, and the largest code times the rounding of the scale to a normal or subnormal fp16.
    const float bound = peak / 127 * 0.5f + std::max(peak * 0x1p-11f, 127 * 0x1p-25f);
    for (size_t i = block; i < block + 32; ++i) ASSERT_LE(std::fabs(values[i] - source[i]), bound) << i;
  }
}

TEST(Quantise, ZerosStayZero) {
  const std::vector<float> zeros(512, 0.0f);
  for_each_quantisable([&](DType type) { EXPECT_EQ(there_and_back(type, zeros), zeros); });
}

TEST(Quantise, ValuesOnTheGridOfTheFormatComeBackUnchanged) {
  std::vector<float> steps(256);
  const auto fill_steps = [&](size_t levels, float lowest, float step) {
    for (size_t i = 0; i < steps.size(); ++i) steps[i] = step * (lowest + static_cast<float>(i % levels));
  };
  fill_steps(16, -8, 0.25f);
  for (const DType type : {DType::Q4_0, DType::Q4_1}) EXPECT_EQ(there_and_back(type, steps), steps) << type_name(type);
  fill_steps(32, -16, 0.25f);
  for (const DType type : {DType::Q5_0, DType::Q5_1}) EXPECT_EQ(there_and_back(type, steps), steps) << type_name(type);
  fill_steps(4, -1, 0.5f);
  EXPECT_EQ(there_and_back(DType::Q2_0, steps), steps);
  const float fp4[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.5f, -1, -1.5f, -2, -3, -4, -6, 0};
  for (size_t i = 0; i < steps.size(); ++i) steps[i] = fp4[i % 16];
  EXPECT_EQ(there_and_back(DType::MXFP4, steps), steps);
  EXPECT_EQ(there_and_back(DType::NVFP4, steps), steps);
}

TEST(Quantise, SignsAreKept) {
  std::vector<float> x(256);
  for (size_t i = 0; i < x.size(); ++i) x[i] = i % 3 == 0 ? -1.0f : 1.0f;
  for_each_quantisable([&](DType type) {
    const std::vector<float> values = there_and_back(type, x);
    for (size_t i = 0; i < x.size(); ++i) ASSERT_GT(values[i] * x[i], 0.3f) << i;
  });
}

TEST(Quantise, HugeValuesSaturateAndTinyOnesVanishWithoutLosingFiniteness) {
  for (const float size : {1e-45f, 1e-38f, 1e-20f, 1e-9f, 1e5f, 1e9f, 3.4e38f}) {
    std::vector<float> x(512);
    for (size_t i = 0; i < x.size(); ++i) x[i] = size * (i % 2 ? -1.0f : 0.5f) * (i % 5 ? 1.0f : 0.1f);
    for_each_quantisable([&](DType type) {
      if (type == DType::F16 || type == DType::BF16) return;  // these round to infinity as their arithmetic says
      const std::vector<float> values = there_and_back(type, x);
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_TRUE(std::isfinite(values[i])) << size << " element " << i;
        ASSERT_LE(std::fabs(values[i]), 2.0f * static_cast<double>(size) + 1e-4) << size << " element " << i;
      }
    });
  }
}

TEST(QuantiseDeathTest, AFormatWithAGridIsABugOfTheCaller) {
  const float x[256] = {};
  std::byte out[256];
  EXPECT_DEATH(quantise_row(DType::IQ3_XXS, x, 256, out), "cannot be quantised");
}

}  // namespace
}  // namespace strata
