#include "cpu/matmul.h"

#include "cpu/cpu_case.h"

namespace strata::test {

TEST(TilePlan, CoversEveryOutputOfEveryRowOnce) {
  for (const std::vector<int64_t>& outputs :
       std::vector<std::vector<int64_t>>{{1}, {4}, {32, 4}, {512, 256, 4, 4}, {8192}, {3, 1, 129, 40}}) {
    std::vector<Weight> ws;
    for (const int64_t n : outputs) ws.push_back({DType::F32, 256, n});
    for (const int rows : {1, 8, 15, 16, 33, 512}) {
      for (const int n_threads : {1, 2, 16}) {
        const TilePlan plan = plan_tiles(ws, rows, n_threads);
        EXPECT_LE(plan.tile_rows, kTileRows);
        std::vector<std::vector<int>> seen;
        for (const int64_t n : outputs) seen.emplace_back(static_cast<size_t>(n), 0);
        for (int i = 0; i < plan.n_tiles; ++i) {
          const Tile tile = tile_at(ws, plan, i);
          ASSERT_GT(tile.count, 0);
          ASSERT_LE(tile.count, plan.tile_rows);
          for (int o = tile.first; o < tile.first + tile.count; ++o) ++seen.at(tile.weight).at(static_cast<size_t>(o));
        }
        for (const std::vector<int>& of_weight : seen) EXPECT_EQ(of_weight, std::vector<int>(of_weight.size(), 1));
        EXPECT_GE(plan.chunk_rows * plan.n_chunks, rows);
        EXPECT_LT(plan.chunk_rows * (plan.n_chunks - 1), rows) << "an empty chunk";
      }
    }
  }
}

TEST(TilePlan, GivesSmallTilesToSmallMatricesAndToManyRows) {
  const Weight small{DType::F32, 256, 64}, large{DType::F32, 256, 8192};
  EXPECT_EQ(plan_tiles({&large, 1}, 1, 2).tile_rows, kTileRows);
  EXPECT_EQ(plan_tiles({&large, 1}, kFewRows + 1, 2).tile_rows, kDecodedRows);
  EXPECT_EQ(plan_tiles({&small, 1}, 1, 4).tile_rows, 4);
}

TEST(TilePlan, CutsRowsOnlyWhereOutputsAreTooFewForTheThreads) {
  const Weight few{DType::F32, 256, 4}, many{DType::F32, 256, 512};
  EXPECT_EQ(plan_tiles({&many, 1}, 512, 2).n_chunks, 1);
  EXPECT_EQ(plan_tiles({&few, 1}, 512, 2).n_chunks, 4);
  EXPECT_EQ(plan_tiles({&few, 1}, 8, 2).n_chunks, 1);
}

TEST(Dequantise, GivesTheReferenceValuesOfEveryFormat) {
  Rng rng(1);
  for (const TypeTraits& type : all_types()) {
    const int cols = 2 * type.block_elems + (type.block_elems == 1 ? 77 : 0);
    const TestWeight w(rng, type.type, 7, cols, 0.1f);
    Weight scaled = w.w();
    scaled.scale = 3.0f;
    std::vector<float> got(static_cast<size_t>(cols)), want(static_cast<size_t>(cols));
    for (int r = 0; r < 7; ++r) {
      dequantise_row(type.type, scaled.row(r), cols, want.data());
      for (float& v : want) v *= 3.0f;
      dequantise(scaled, r, got.data());
      expect_same_bits(got.data(), want.data(), cols, fmt::format("{} row {}", type.name, r));
    }
  }
}

TEST(Multiply, TellsOfEveryFinishedPieceOnce) {
  Rng rng(2);
  const TestWeight a(rng, DType::Q8_0, 37, 64, 0.1f), b(rng, DType::F32, 2, 64, 0.1f);
  const Weight ws[] = {a.w(), b.w()};
  const int rows = 50;
  Mat x(rows, 64), y(rows, 37), z(rows, 2);
  x.fill(rng, 1.0f);
  std::vector<const float*> pointers;
  for (int r = 0; r < rows; ++r) pointers.push_back(x.row(r));
  const MatF32 ys[] = {y, z};
  WorkerPool pool(3);
  HostMemory memory;
  const Buffer scratch = *memory.allocate(1 << 20, "scratch"), rounded = *memory.allocate(1 << 20, "inputs");
  const Workshop shop{pool, *available_kernels().front(), scratch.data(), 0, (size_t{1} << 20) / 3 / 64 * 64};
  std::vector<std::atomic<int>> seen(static_cast<size_t>(rows) * 39);
  Carver carver(rounded.data(), size_t{1} << 20);
  const ActRoom room = ActRoom::carve(carver, rows, 64);
  const ActRows acts = quantise(shop, room, pointers.data(), rows, 64, act_orders(shop.kernels, ws));
  multiply(shop, ws, acts, ys, [&](size_t i, MatF32 part, int first, int count) {
    const auto first_row = static_cast<int>((part.data - ys[i].data) / part.stride);
    for (int r = first_row; r < first_row + part.rows; ++r) {
      for (int o = first; o < first + count; ++o) ++seen[static_cast<size_t>(r * 39 + (i == 0 ? o : 37 + o))];
    }
  });
  for (const auto& count : seen) EXPECT_EQ(count.load(), 1);
}

}  // namespace strata::test
