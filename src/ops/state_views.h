// What operations may touch of a sequence: pointers into memory that state/ owns. Committed values lie in `base`
// buffers; a step writes only pending places (the other log, the `next` buffers, KV rows beyond the length), and
// state/ makes a prefix of them permanent. See state/running.h for the protocol.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "ops/memory.h"

namespace strata {

inline constexpr int kMaxWindow = 8;  // rows of generated text in one step of one sequence

enum class RowRole : uint8_t { generated, prompt };  // decides the arithmetic of a row

struct Pos3 {  // rotary position: time, height, width; text has all three equal
  int32_t t = 0, h = 0, w = 0;
  bool operator==(const Pos3&) const = default;
  int32_t axis(int i) const { return i == 0 ? t : i == 1 ? h : w; }
};

// Last `rows` inputs of a causal convolution over `width` channels.
struct ConvState {
  float* base = nullptr;        // [rows, width], oldest first, before the logged rows
  float* next = nullptr;        // [rows, width], after a prompt chunk
  std::array<float*, 2> log{};  // each [kMaxWindow, width]: inputs of the rows of a window
  int rows = 0, width = 0;
};

// Delta-rule state of one layer. A logged row advances it by: S_t = decay[t] * S_t + key[t % k_heads] (x) update[t].
struct GdnState {
  float* base = nullptr;           // [v_heads, k_dim, v_dim]
  float* next = nullptr;           // the same after a prompt chunk
  std::array<float*, 2> decay{};   // each [kMaxWindow, v_heads]
  std::array<float*, 2> key{};     // each [kMaxWindow, k_heads, k_dim]
  std::array<float*, 2> update{};  // each [kMaxWindow, v_heads, v_dim]
  ConvState conv;
};

enum class KvFormat : uint8_t { f32, f16 };

// One attention layer inside every page, and its ring of raw indexer keys.
struct KvLayer {
  size_t k_offset = 0, v_offset = 0;    // bytes into a page: [kPageTokens, kv_heads, dim] in the page's format
  size_t block_key_offset = 0;          // bytes: [kPageTokens / block_tokens, index_dim] float32, finished block keys
  int k_width = 0, v_width = 0;         // values per position
  int index_dim = 0, block_tokens = 0;  // 0: no indexer
  float* raw_ring = nullptr;            // [ring_rows, index_dim]: raw key of position p at row p % ring_rows
};

struct KvView {
  KvFormat format = KvFormat::f32;
  std::byte* const* pages = nullptr;  // page i holds positions [i * kPageTokens, (i+1) * kPageTokens)
  const KvLayer* layers = nullptr;    // by attention ordinal
  Pos3* ring_pos = nullptr;           // [ring_rows]: rotary positions beside the raw keys, the same for all layers
  int ring_rows = 0;  // >= rows of a chunk + block_tokens, so a dropped step leaves committed raw keys whole

  size_t value_bytes() const { return format == KvFormat::f32 ? 4 : 2; }
  std::byte* k(int layer, Pos p) const { return row(layers[layer].k_offset, layers[layer].k_width, p); }
  std::byte* v(int layer, Pos p) const { return row(layers[layer].v_offset, layers[layer].v_width, p); }
  float* block_key(int layer, int block) const {
    const KvLayer& l = layers[layer];
    const int per_page = kPageTokens / l.block_tokens;
    std::byte* at = pages[block / per_page] + l.block_key_offset;
    return reinterpret_cast<float*>(at) + static_cast<size_t>(block % per_page) * static_cast<size_t>(l.index_dim);
  }
  float* raw_key(int layer, Pos p) const {
    return layers[layer].raw_ring + static_cast<size_t>(p % ring_rows) * static_cast<size_t>(layers[layer].index_dim);
  }

 private:
  std::byte* row(size_t offset, int width, Pos p) const {
    return pages[p / kPageTokens] + offset +
           static_cast<size_t>(p % kPageTokens) * static_cast<size_t>(width) * value_bytes();
  }
};

struct SequenceView {
  GdnState* gdn = nullptr;  // by delta-net ordinal
  ConvState ple;            // rows == 0 when the model has no n-gram layer
  KvView kv;
  int log_current = 0;  // the log that holds the kept rows; a window writes the other one
  int kept_rows = 0;    // rows of that log that are committed but not yet in `base`
};

// Rows [first_row, first_row + n_rows) of a batch continue one sequence at position first_pos.
struct Segment {
  SequenceView* sequence = nullptr;
  int first_row = 0, n_rows = 0;
  Pos first_pos = 0;
  RowRole role = RowRole::prompt;
};

}  // namespace strata
