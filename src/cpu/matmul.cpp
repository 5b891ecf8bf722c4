#include "cpu/matmul.h"

#include "quant/reference.h"

namespace strata {
namespace {

constexpr int64_t kTileBytes = 512 * 1024;  // decoded weights of a task stay in the second-level cache
constexpr int kTasksPerThread = 3;          // so that a thread that is late costs a third of its share
constexpr int kMinChunkRows = 16;           // decoding a tile again has to be worth it

bool aligned(const std::byte* data, size_t to) {
  return reinterpret_cast<uintptr_t>(data) % to == 0;
}

// The kernel for a format; null where the reference does it.
auto row_decoder(const Kernels& kernels, DType type) -> decltype(kernels.decode_q6_k) {
  switch (type) {
    case DType::Q6_K:
      return kernels.decode_q6_k;
    case DType::IQ3_XXS:
      return kernels.decode_iq3_xxs;
    case DType::IQ4_NL:
      return kernels.decode_iq4_nl;
    default:
      return nullptr;
  }
}

int tiles_of(const Weight& w, int tile_rows) {
  return static_cast<int>((w.rows + tile_rows - 1) / tile_rows);
}

}  // namespace

DecodedRows decode_rows(const Kernels& kernels, const Weight& w, int64_t first, int count, float* buffer) {
  const std::byte* at = w.row(first);
  if (w.type == DType::F32 && aligned(at, alignof(float))) return {reinterpret_cast<const float*>(at), w.cols};
  const size_t bytes = row_bytes(w.type, w.cols);
  const auto decode = row_decoder(kernels, w.type);
  for (int r = 0; r < count; ++r, at += bytes) {
    float* to = buffer + r * w.cols;
    if (decode != nullptr) {
      decode(at, w.cols, to);
    } else if (w.type == DType::F16 && aligned(at, alignof(uint16_t))) {
      kernels.from_half(reinterpret_cast<const uint16_t*>(at), to, static_cast<int>(w.cols));
    } else {
      dequantise_row(w.type, at, w.cols, to);
    }
  }
  return {buffer, w.cols};
}

TilePlan plan_tiles(std::span<const Weight> ws, int rows, int n_threads) {
  int64_t outputs = 0, inputs = 1;
  for (const Weight& w : ws) {
    outputs += w.rows;
    inputs = std::max(inputs, w.cols);
  }
  TilePlan plan;
  const int64_t share = outputs / (int64_t{kTasksPerThread} * n_threads);
  const int64_t fits = kTileBytes / (inputs * static_cast<int64_t>(sizeof(float)));
  plan.tile_rows = static_cast<int>(std::clamp<int64_t>(std::min(share, fits) / 4 * 4, 4, kTileRows));
  for (const Weight& w : ws) plan.n_tiles += tiles_of(w, plan.tile_rows);
  // Few outputs and many rows: cut the rows as well.
  const int wanted = plan.n_tiles >= 2 * n_threads ? 1 : (2 * n_threads + plan.n_tiles - 1) / std::max(plan.n_tiles, 1);
  plan.n_chunks = std::clamp(rows / kMinChunkRows, 1, wanted);
  plan.chunk_rows = (rows + plan.n_chunks - 1) / plan.n_chunks;
  plan.n_chunks = (rows + plan.chunk_rows - 1) / plan.chunk_rows;
  return plan;
}

Tile tile_at(std::span<const Weight> ws, const TilePlan& plan, int index) {
  for (size_t i = 0; i < ws.size(); ++i) {
    const int tiles = tiles_of(ws[i], plan.tile_rows);
    if (index < tiles) {
      const int first = index * plan.tile_rows;
      return {i, first, static_cast<int>(std::min<int64_t>(plan.tile_rows, ws[i].rows - first))};
    }
    index -= tiles;
  }
  CHECK(false, "tile {} beyond the last", index);
  return {};
}

void multiply_tile(const Workshop& shop, const Weight& w, const Tile& tile, const float* const* x, MatF32 y,
                   float* buffer) {
  const DecodedRows weights = decode_rows(shop.kernels, w, tile.first, tile.count, buffer);
  shop.kernels.dot_tile(weights.data, weights.stride, tile.count, x, y.rows, w.cols, y.data + tile.first, y.stride);
  if (w.scale == 1.0f) return;
  for (int r = 0; r < y.rows; ++r) {
    for (int j = 0; j < tile.count; ++j) y.row(r)[tile.first + j] *= w.scale;
  }
}

}  // namespace strata
