#include "quant/codebooks.h"

#include "quant/vectors.h"

namespace strata {
namespace {

class Codebooks : public ::testing::Test {
 protected:
  void SetUp() override {
    auto parsed = parse_json(read_data("codebooks.json"), "codebooks.json");
    ASSERT_TRUE(parsed.ok()) << parsed.status().text();
    books_ = std::move(parsed).value();
  }

  template <class Entry, size_t n>
  void expect_grid(const std::array<Entry, n>& grid, const std::string& name) {
    const Json& entries = books_[name]["entries"];
    ASSERT_EQ(entries.size(), n) << name;
    EXPECT_EQ(books_[name]["bytes_per_entry"], sizeof(Entry)) << name;
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(grid[i], std::stoull(entries[i].get<std::string>(), nullptr, 16)) << name << " entry " << i;
    }
  }

  template <class Array>
  void expect_values(const Array& values, const std::string& name) {
    const Json& entries = books_[name]["entries"];
    ASSERT_EQ(entries.size(), values.size()) << name;
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(entries[i], static_cast<int>(values[i])) << name << " entry " << i;
  }

  Json books_;
};

TEST_F(Codebooks, ExpandToThePublishedTables) {
  expect_grid(kIq1sGrid, "iq1s_grid");
  expect_grid(kIq2xxsGrid, "iq2xxs_grid");
  expect_grid(kIq2xsGrid, "iq2xs_grid");
  expect_grid(kIq2sGrid, "iq2s_grid");
  expect_grid(kIq3xxsGrid, "iq3xxs_grid");
  expect_grid(kIq3sGrid, "iq3s_grid");
  expect_values(kEvenSigns, "ksigns_iq2xs");
  expect_values(kIq4nlValues, "kvalues_iq4nl");
  expect_values(kFp4DoubledValues, "kvalues_mxfp4");
}

TEST_F(Codebooks, MagnitudesAreNeverZeroSoBytesCanBeNegatedTogether) {
  const auto expect_no_zero_byte = [](const auto& grid) {
    for (const auto entry : grid) {
      for (size_t j = 0; j < sizeof entry; ++j) EXPECT_NE((entry >> (8 * j)) & 0xff, 0u);
    }
  };
  expect_no_zero_byte(kIq2xxsGrid);
  expect_no_zero_byte(kIq2xsGrid);
  expect_no_zero_byte(kIq2sGrid);
  expect_no_zero_byte(kIq3xxsGrid);
  expect_no_zero_byte(kIq3sGrid);
}

TEST_F(Codebooks, ByteMasksSpreadTheBitsOfAByte) {
  for (size_t i = 0; i < 256; ++i) {
    for (size_t j = 0; j < 8; ++j) EXPECT_EQ((kByteMasks[i] >> (8 * j)) & 0xff, i >> j & 1 ? 0xffu : 0u);
  }
}

}  // namespace
}  // namespace strata
