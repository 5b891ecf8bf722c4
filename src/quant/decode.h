// Shared by reference.cpp and reference_iq.cpp: the walk over the blocks of a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensor/tensor.h"

namespace strata {

using RowDecoder = void (*)(const std::byte* blocks, int64_t n, float* out);

// Each block is copied first, so rows may start at any address.
template <class Block, void (*decode)(const Block&, float*)>
void decode_row(const std::byte* blocks, int64_t n, float* out) {
  const int64_t n_blocks = n / Block::kElems;
  for (int64_t i = 0; i < n_blocks; ++i) {
    Block block;
    std::memcpy(&block, blocks + i * static_cast<int64_t>(sizeof(Block)), sizeof(Block));
    decode(block, out + i * Block::kElems);
  }
}

// The decoder of an IQ format; null for the other formats.
RowDecoder iq_row_decoder(DType type);

}  // namespace strata
