// Weights times rows. A tile of weight rows is decoded to float32 once and multiplied with all rows of the call; the
// sum over the inputs has one fixed order, so a result depends on its row and its weight row alone.
#pragma once

#include <algorithm>
#include <span>

#include "cpu/workshop.h"
#include "tensor/tensor.h"

namespace strata {

inline constexpr int kTileRows = 32;  // most weight rows that are decoded at once

struct DecodedRows {
  const float* data = nullptr;
  int64_t stride = 0;
};

// Rows [first, first + count) of a weight without its external factor: where they lie if they are float32, otherwise
// decoded into buffer [count, cols].
DecodedRows decode_rows(const Kernels& kernels, const Weight& w, int64_t first, int count, float* buffer);

// How the outputs of several weights, and the rows, are cut into tasks.
struct TilePlan {
  int tile_rows = 0;                 // outputs of a task
  int n_tiles = 0;                   // over all weights; a tile does not cross weights
  int chunk_rows = 0, n_chunks = 0;  // batch rows of a task
};
TilePlan plan_tiles(std::span<const Weight> ws, int rows, int n_threads);

struct Tile {
  size_t weight = 0;
  int first = 0, count = 0;  // outputs
};
Tile tile_at(std::span<const Weight> ws, const TilePlan& plan, int index);

// y[r][first ..] = tile of w times x[r], for y.rows rows.
void multiply_tile(const Workshop& shop, const Weight& w, const Tile& tile, const float* const* x, MatF32 y,
                   float* buffer);

// ys[i].row(r) = ws[i] x[r] for every row of ys. done(i, rows, first, count) follows each finished piece: outputs
// [first, first + count) of ws[i] in `rows`, a part of the rows of ys[i].
template <class Done>
void multiply(const Workshop& shop, std::span<const Weight> ws, const float* const* x, std::span<const MatF32> ys,
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
    multiply_tile(shop, w, tile, x + first_row, part, own.take<float>(tile.count * w.cols));
    done(tile.weight, part, tile.first, tile.count);
  });
}

inline void multiply(const Workshop& shop, std::span<const Weight> ws, const float* const* x,
                     std::span<const MatF32> ys) {
  multiply(shop, ws, x, ys, [](size_t, MatF32, int, int) {});
}

// What a task of multiply carves at most.
inline void carve_tile(Carver& own, int64_t max_inputs) {
  own.take<float>(kTileRows * max_inputs);
}

}  // namespace strata
