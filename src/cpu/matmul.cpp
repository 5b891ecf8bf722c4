#include "cpu/matmul.h"

#include "quant/reference.h"

namespace strata {
namespace {

constexpr int kTasksPerThread = 4;     // so that a thread that is late costs a part of its share
constexpr int kMinChunkRows = 16;      // decoding a tile again has to be worth it
constexpr int64_t kSerialBlocks = 48;  // blocks that are rounded sooner than another thread has begun
constexpr int kMaxOutputsOfMany = 16;  // with many rows: what is decoded at once

int tiles_of(const Weight& w, int tile_rows) {
  return static_cast<int>((w.rows + tile_rows - 1) / tile_rows);
}

void dot_floats(const Kernels& k, const Weight& w, int64_t first, int count, const ActRows& x, int n_x, float* out,
                int64_t stride) {
  const std::byte* at = w.row(first);
  switch (w.type) {
    case DType::F32:
      return k.dot_tile(reinterpret_cast<const float*>(at), w.cols, count, x.f32, n_x, w.cols, out, stride);
    case DType::F16:
      return k.dot_tile_f16(reinterpret_cast<const uint16_t*>(at), w.cols, count, x.f32, n_x, w.cols, out, stride);
    case DType::BF16:
      return k.dot_tile_bf16(reinterpret_cast<const uint16_t*>(at), w.cols, count, x.f32, n_x, w.cols, out, stride);
    default:
      CHECK(false, "no product for type {}", type_name(w.type));
  }
}

}  // namespace

ActRoom ActRoom::carve(Carver& shared, int64_t rows, int64_t inputs) {
  ActRoom room;
  room.row_blocks = act_blocks(inputs);
  for (int i = 0; i < kActOrders; ++i) {
    room.blocks[i] = shared.take<ActBlock>(rows * room.row_blocks);
    room.pointers[i] = shared.take<const ActBlock*>(rows);
  }
  return room;
}

uint32_t act_orders(const Kernels& kernels, DType type) {
  const DotKernel* kernel = kernels.dots->find(type);
  return kernel == nullptr ? 0 : 1u << static_cast<int>(kernel->order);
}

uint32_t act_orders(const Kernels& kernels, std::span<const Weight> ws) {
  uint32_t orders = 0;
  for (const Weight& w : ws) orders |= act_orders(kernels, w.type);
  return orders;
}

ActRows quantise(const Workshop& shop, const ActRoom& room, const float* const* x, int n_rows, int64_t n,
                 uint32_t orders) {
  ActRows rows{x, {}};
  if (orders == 0) return rows;
  const int64_t row_blocks = act_blocks(n);
  CHECK(row_blocks <= room.row_blocks, "{} inputs, room for {} blocks", n, room.row_blocks);
  for (int i = 0; i < kActOrders; ++i) {
    if ((orders >> i & 1) == 0) continue;
    for (int r = 0; r < n_rows; ++r) room.pointers[i][r] = room.blocks[i] + r * row_blocks;
    rows.blocks[i] = room.pointers[i];
  }
  shop.each_row(n_rows, static_cast<int>(std::max<int64_t>(kSerialBlocks / row_blocks, 1)), [&](int r, int) {
    for (int i = 0; i < kActOrders; ++i) {
      if (orders >> i & 1) {
        shop.kernels.dots->quantise(x[r], n, static_cast<ActOrder>(i), room.blocks[i] + r * row_blocks);
      }
    }
  });
  return rows;
}

void dot_part(const Workshop& shop, const Weight& w, int64_t first, int count, const ActRows& x, int n_x, float* out,
              int64_t stride, DecodedBlock* tile) {
  const DotKernel* kernel = shop.kernels.dots->find(w.type);
  if (kernel == nullptr) {
    dot_floats(shop.kernels, w, first, count, x, n_x, out, stride);
  } else {
    const ActBlock* const* blocks = x.blocks[static_cast<int>(kernel->order)];
    CHECK(blocks != nullptr, "inputs were not rounded for {}", type_name(w.type));
    QuantRows rows{w.row(first), row_bytes(w.type, w.cols), w.data + w.bytes(), count, w.cols};
    if (n_x <= kFewRows) {
      kernel->dot_rows(rows, blocks, n_x, out, stride);
    } else {
      for (int j = 0; j < count; j += kDecodedRows) {
        rows.w = w.row(first + j);
        rows.n_w = std::min(kDecodedRows, count - j);
        kernel->decode_rows(rows, tile);
        kernel->dot_decoded(tile, rows.n_w, blocks, n_x, w.cols, out + j, stride);
      }
    }
  }
  if (w.scale == 1.0f) return;
  for (int r = 0; r < n_x; ++r) {
    for (int j = 0; j < count; ++j) out[r * stride + j] *= w.scale;
  }
}

void dequantise(const Weight& w, int64_t r, float* to) {
  dequantise_row(w.type, w.row(r), w.cols, to);
  if (w.scale == 1.0f) return;
  for (int64_t i = 0; i < w.cols; ++i) to[i] *= w.scale;
}

TilePlan plan_tiles(std::span<const Weight> ws, int rows, int n_threads) {
  int64_t outputs = 0;
  for (const Weight& w : ws) outputs += w.rows;
  TilePlan plan;
  const int64_t share = outputs / (int64_t{kTasksPerThread} * n_threads);
  const int64_t most = rows <= kFewRows ? kTileRows : kMaxOutputsOfMany;
  plan.tile_rows = static_cast<int>(std::clamp<int64_t>(share / 4 * 4, 4, most));
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

}  // namespace strata
