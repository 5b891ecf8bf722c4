// The code books as the integer dots read them: every byte with an offset, so that it is never negative.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "quant/codebooks.h"

namespace strata {

// Byte j of an entry becomes factor * byte j + add.
template <class Entry, size_t n>
constexpr std::array<Entry, n> shifted_grid(const std::array<Entry, n>& grid, int factor, int add) {
  std::array<Entry, n> result{};
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < sizeof(Entry); ++j) {
      const auto value = static_cast<int8_t>(grid[i] >> (8 * j));
      result[i] |= static_cast<Entry>(static_cast<uint8_t>(factor * value + add)) << (8 * j);
    }
  }
  return result;
}

inline constexpr int kIq1Offset = 16, kIq2Offset = 64, kIq3Offset = 64;

// Eight times the value, plus 1 for the shift of an eighth.
alignas(64) inline constexpr auto kIq1sOffsetGrid = shifted_grid(kIq1sGrid, 8, kIq1Offset + 1);
alignas(64) inline constexpr auto kIq2xxsOffsetGrid = shifted_grid(kIq2xxsGrid, 1, kIq2Offset);
alignas(64) inline constexpr auto kIq2xsOffsetGrid = shifted_grid(kIq2xsGrid, 1, kIq2Offset);
alignas(64) inline constexpr auto kIq2sOffsetGrid = shifted_grid(kIq2sGrid, 1, kIq2Offset);
alignas(64) inline constexpr auto kIq3xxsOffsetGrid = shifted_grid(kIq3xxsGrid, 1, kIq3Offset);
alignas(64) inline constexpr auto kIq3sOffsetGrid = shifted_grid(kIq3sGrid, 1, kIq3Offset);

// A grid of fours as two tables of bytes: elements 2p and 2p + 1 of entry i in the halves of [p][i], as positions in
// the list of 8 values.
template <size_t n>
struct Pairs {
  uint8_t of_elements[2][n];
};
template <size_t n>
constexpr Pairs<n> pairs_of(const uint16_t (&codes)[n]) {
  Pairs<n> pairs{};
  for (size_t i = 0; i < n; ++i) {
    for (size_t p = 0; p < 2; ++p) {
      const int two = codes[i] >> (6 * p);
      pairs.of_elements[p][i] = static_cast<uint8_t>((two & 7) | (two >> 3 & 7) << 4);
    }
  }
  return pairs;
}
alignas(64) inline constexpr auto kIq3xxsPairs = pairs_of(codebook_detail::kIq3xxsCodes);
alignas(64) inline constexpr auto kIq3sPairs = pairs_of(codebook_detail::kIq3sCodes);
// The lists of values with the offset, sixteen long for a byte shuffle.
template <size_t n>
constexpr std::array<uint8_t, 16> offset_values(const int8_t (&values)[n], int add) {
  std::array<uint8_t, 16> result{};
  for (size_t i = 0; i < 16; ++i) result[i] = static_cast<uint8_t>(values[i % n] + add);
  return result;
}
alignas(16) inline constexpr auto kIq3xxsOffsetValues = offset_values(codebook_detail::kIq3xxsValues, kIq3Offset);
alignas(16) inline constexpr auto kIq3sOffsetValues = offset_values(codebook_detail::kIq3sValues, kIq3Offset);

}  // namespace strata
