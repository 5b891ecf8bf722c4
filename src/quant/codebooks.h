// Code books of the IQ and FP4 formats, expanded at compile time from codebook_codes.inc (written by
// tools/make_codebooks.py). A grid entry packs the magnitudes of 8 (or 4) neighbouring elements into the bytes of one
// number, lowest byte first. Constants only: any room, and device code, may include this.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace strata {

namespace codebook_detail {
#include "quant/codebook_codes.inc"

// Element j of an entry is values[digit j of its code].
template <class Entry, int kBits, size_t kEntries, size_t kValues>
constexpr std::array<Entry, kEntries> expand(const uint16_t (&codes)[kEntries], const int8_t (&values)[kValues]) {
  std::array<Entry, kEntries> grid{};
  for (size_t i = 0; i < kEntries; ++i) {
    for (size_t j = 0; j < sizeof(Entry); ++j) {
      const int8_t value = values[(codes[i] >> (kBits * j)) & ((1 << kBits) - 1)];
      grid[i] |= static_cast<Entry>(static_cast<uint8_t>(value)) << (8 * j);
    }
  }
  return grid;
}

inline constexpr int8_t kIq1Values[] = {-1, 0, 1};
inline constexpr int8_t kIq2Values[] = {8, 25, 43};
inline constexpr int8_t kIq3xxsValues[] = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr int8_t kIq3sValues[] = {1, 3, 5, 7, 9, 11, 13, 15};

constexpr std::array<uint64_t, 256> byte_masks() {
  std::array<uint64_t, 256> masks{};
  for (size_t i = 0; i < 256; ++i) {
    for (size_t j = 0; j < 8; ++j) masks[i] |= (i >> j & 1) ? uint64_t{0xff} << (8 * j) : 0;
  }
  return masks;
}

constexpr std::array<uint8_t, 128> even_signs() {
  std::array<uint8_t, 128> signs{};
  for (uint32_t i = 0; i < 128; ++i) signs[i] = static_cast<uint8_t>(i | (std::popcount(i) & 1) << 7);
  return signs;
}
}  // namespace codebook_detail

// 8 signed bytes an entry (-1, 0, 1): IQ1_S and IQ1_M.
alignas(64) inline constexpr auto kIq1sGrid = codebook_detail::expand<uint64_t, 2>(codebook_detail::kIq1sCodes,
                                                                                   codebook_detail::kIq1Values);
// 8 magnitudes an entry.
alignas(64) inline constexpr auto kIq2xxsGrid = codebook_detail::expand<uint64_t, 2>(codebook_detail::kIq2xxsCodes,
                                                                                     codebook_detail::kIq2Values);
alignas(64) inline constexpr auto kIq2xsGrid = codebook_detail::expand<uint64_t, 2>(codebook_detail::kIq2xsCodes,
                                                                                    codebook_detail::kIq2Values);
alignas(64) inline constexpr auto kIq2sGrid = codebook_detail::expand<uint64_t, 2>(codebook_detail::kIq2sCodes,
                                                                                   codebook_detail::kIq2Values);
// 4 magnitudes an entry.
alignas(64) inline constexpr auto kIq3xxsGrid = codebook_detail::expand<uint32_t, 3>(codebook_detail::kIq3xxsCodes,
                                                                                     codebook_detail::kIq3xxsValues);
alignas(64) inline constexpr auto kIq3sGrid = codebook_detail::expand<uint32_t, 3>(codebook_detail::kIq3sCodes,
                                                                                   codebook_detail::kIq3sValues);

// Sign byte (bit j set: element j is negative) of a 7-bit sign code: the number of minus signs is always even.
inline constexpr auto kEvenSigns = codebook_detail::even_signs();
// Byte j of entry i is 0xff where bit j of i is set, else 0.
alignas(64) inline constexpr auto kByteMasks = codebook_detail::byte_masks();

// IQ4_NL and IQ4_XS.
inline constexpr std::array<int8_t, 16> kIq4nlValues = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                        1,    13,   25,  38,  53,  69,  89,  113};
// MXFP4 and NVFP4: twice the value of a 4-bit float, so that all are whole numbers.
inline constexpr std::array<int8_t, 16> kFp4DoubledValues = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace strata
