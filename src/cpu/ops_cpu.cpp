#include "cpu/ops_cpu.h"

#include <algorithm>

#include "cpu/matmul.h"
#include "cpu/scratch.h"

namespace strata {

std::unique_ptr<Ops> make_cpu_ops(WorkerPool& pool, std::string_view isa) {
  const Kernels* kernels = find_kernels(isa);
  CHECK(kernels != nullptr, "no {} kernels here", isa);
  return std::make_unique<CpuOps>(pool, *kernels);
}

size_t cpu_scratch_bytes(const OpsShapes& shapes, int n_threads) {
  return shared_scratch_bytes(shapes) + thread_scratch_bytes(shapes) * static_cast<size_t>(n_threads);
}

size_t CpuOps::scratch_bytes(const OpsShapes& shapes) const {
  return cpu_scratch_bytes(shapes, shop_.pool.n_threads());
}

Status CpuOps::reserve(const OpsShapes& shapes) {
  ASSIGN_OR_RETURN(scratch_, memory_.allocate(scratch_bytes(shapes), "temporaries of the operations"));
  shop_.scratch = scratch_.data();
  shop_.shared_bytes = shared_scratch_bytes(shapes);
  shop_.thread_bytes = thread_scratch_bytes(shapes);
  return {};
}

void CpuOps::embed(const Weight& table, std::span<const TokenId> ids, std::span<const float* const> embeddings,
                   MatF32 streams, int n_streams) {
  const auto width = static_cast<int>(table.cols);
  CHECK(static_cast<int>(ids.size()) == streams.rows && streams.cols == n_streams * width,
        "{} ids, streams {} x {}, {} streams of {}", ids.size(), streams.rows, streams.cols, n_streams, width);
  CHECK(embeddings.empty() || embeddings.size() == ids.size(), "{} embeddings, {} ids", embeddings.size(), ids.size());
  shop_.each_row(streams.rows, 32, [&](int r, int) {
    const auto i = static_cast<size_t>(r);
    float* first = streams.row(r);
    if (!embeddings.empty() && embeddings[i] != nullptr) {
      std::copy_n(embeddings[i], width, first);
    } else {
      CHECK(ids[i].v >= 0 && ids[i].v < table.rows, "token {} of {}", ids[i].v, table.rows);
      dequantise(table, ids[i].v, first);
    }
    for (int s = 1; s < n_streams; ++s) std::copy_n(first, width, first + s * width);
  });
}

void CpuOps::linear(std::span<const Weight> ws, MatF32 x, std::span<const MatF32> ys, RowRole) {
  CHECK(ws.size() == ys.size(), "{} weights, {} outputs", ws.size(), ys.size());
  for (size_t i = 0; i < ws.size(); ++i) {
    CHECK(x.cols == ws[i].cols && ys[i].cols == ws[i].rows && x.rows == ys[i].rows,
          "weight {} x {}, input {} x {}, output {} x {}", ws[i].cols, ws[i].rows, x.rows, x.cols, ys[i].rows,
          ys[i].cols);
  }
  Carver shared = shop_.shared();
  const LinearScratch s = LinearScratch::carve(shared, x.rows);
  const ActRoom room = ActRoom::carve(shared, x.rows, x.cols);
  for (int r = 0; r < x.rows; ++r) s.x[r] = x.row(r);
  multiply(shop_, ws, quantise(shop_, room, s.x, x.rows, x.cols, act_orders(shop_.kernels, ws)), ys);
}

void CpuOps::head(const Weight& w, MatF32 x, std::span<const int> rows, MatF32 logits) {
  CHECK(x.cols == w.cols && logits.cols == w.rows && logits.rows == static_cast<int>(rows.size()),
        "head {} x {}, input width {}, logits {} x {} for {} rows", w.cols, w.rows, x.cols, logits.rows, logits.cols,
        rows.size());
  Carver shared = shop_.shared();
  const LinearScratch s = LinearScratch::carve(shared, logits.rows);
  for (int i = 0; i < logits.rows; ++i) {
    const int r = rows[static_cast<size_t>(i)];
    CHECK(r >= 0 && r < x.rows, "row {} of {}", r, x.rows);
    s.x[i] = x.row(r);
  }
  const ActRoom room = ActRoom::carve(shared, logits.rows, x.cols);
  const ActRows acts = quantise(shop_, room, s.x, logits.rows, x.cols, act_orders(shop_.kernels, {&w, 1}));
  multiply(shop_, {&w, 1}, acts, {&logits, 1});
}

}  // namespace strata
