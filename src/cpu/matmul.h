// Weights times rows. Block formats are multiplied as integers (dots.h), float formats in float32; either way a result
// depends on its row and its weight row alone, whatever else is computed with them.
#pragma once

#include <algorithm>
#include <span>

#include "cpu/dots.h"
#include "cpu/workshop.h"
#include "tensor/tensor.h"

namespace strata {

// Rows of activations in the forms that the weights of a call read: float32, and int8 in up to two orders.
struct ActRows {
  const float* const* f32 = nullptr;               // [rows]
  const ActBlock* const* blocks[kActOrders] = {};  // [rows], null where no weight reads that order

  ActRows from(int row) const {
    ActRows rest{f32 + row, {}};
    for (int i = 0; i < kActOrders; ++i) rest.blocks[i] = blocks[i] == nullptr ? nullptr : blocks[i] + row;
    return rest;
  }
};

// Room for the int8 forms of n_rows rows.
struct ActRoom {
  ActBlock* blocks[kActOrders] = {};           // [rows, act_blocks(inputs)]
  const ActBlock** pointers[kActOrders] = {};  // [rows]
  int64_t row_blocks = 0;

  static ActRoom carve(Carver& shared, int64_t rows, int64_t inputs);
};

// Bit i: weights of this type (one of these weights) read order i.
uint32_t act_orders(const Kernels& kernels, DType type);
uint32_t act_orders(const Kernels& kernels, std::span<const Weight> ws);
// Rounds the rows to the orders asked for, on all threads when there are many.
ActRows quantise(const Workshop& shop, const ActRoom& room, const float* const* x, int n_rows, int64_t n,
                 uint32_t orders);

inline constexpr int kFewRows = 4;       // so many rows are multiplied while the weights are decoded
inline constexpr int kDecodedRows = 16;  // weight rows that are decoded at once for more

// out[r * stride + j] = row first + j of w times x row r, j < count, r < n_x; the external factor included.
void dot_part(const Workshop& shop, const Weight& w, int64_t first, int count, const ActRows& x, int n_x, float* out,
              int64_t stride, DecodedBlock* tile);
// What dot_part needs of the scratch of a thread for weights of up to max_inputs inputs.
inline DecodedBlock* carve_tile(Carver& own, int64_t max_inputs) {
  return own.take<DecodedBlock>(kDecodedRows * act_blocks(max_inputs));
}

// Row r of a weight in float32, the external factor included.
void dequantise(const Weight& w, int64_t r, float* to);

// How the outputs of several weights, and the rows, are cut into tasks.
struct TilePlan {
  int tile_rows = 0;                 // outputs of a task
  int n_tiles = 0;                   // over all weights; a tile does not cross weights
  int chunk_rows = 0, n_chunks = 0;  // batch rows of a task
};
inline constexpr int kTileRows = 64;  // most outputs of a task
TilePlan plan_tiles(std::span<const Weight> ws, int rows, int n_threads);

struct Tile {
  size_t weight = 0;
  int first = 0, count = 0;  // outputs
};
Tile tile_at(std::span<const Weight> ws, const TilePlan& plan, int index);

// ys[i].row(r) = ws[i] x[r] for every row of ys. done(i, rows, first, count) follows each finished piece: outputs
// [first, first + count) of ws[i] in `rows`, a part of the rows of ys[i].
template <class Done>
void multiply(const Workshop& shop, std::span<const Weight> ws, const ActRows& x, std::span<const MatF32> ys,
              Done&& done) {
  const int rows = ys.empty() ? 0 : ys[0].rows;
  if (rows == 0) return;
  const TilePlan plan = plan_tiles(ws, rows, shop.pool.n_threads());
  shop.pool.run(plan.n_tiles * plan.n_chunks, [&](int task, int thread) {
    const Tile tile = tile_at(ws, plan, task % plan.n_tiles);
    const int first_row = task / plan.n_tiles * plan.chunk_rows;
    const int n_rows = std::min(plan.chunk_rows, rows - first_row);
    const Weight& w = ws[tile.weight];
    Carver own = shop.of_thread(thread);
    const MatF32 part = ys[tile.weight].rows_from(first_row, n_rows);
    dot_part(shop, w, tile.first, tile.count, x.from(first_row), n_rows, part.data + tile.first, part.stride,
             carve_tile(own, w.cols));
    done(tile.weight, part, tile.first, tile.count);
  });
}

inline void multiply(const Workshop& shop, std::span<const Weight> ws, const ActRows& x, std::span<const MatF32> ys) {
  multiply(shop, ws, x, ys, [](size_t, MatF32, int, int) {});
}

}  // namespace strata
