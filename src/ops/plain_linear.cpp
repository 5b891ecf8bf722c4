// Weights times rows: linear, head, embed.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "ops/plain_math.h"
#include "ops/plain_ops.h"
#include "ops/plain_weights.h"
#include "quant/reference.h"

namespace strata {
namespace plain {

void weight_row(const Weight& w, int64_t r, float* out) {
  CHECK(w.data != nullptr && w.place != Place::device, "a weight that the host can read");
  CHECK(r >= 0 && r < w.rows, "row {} of a weight with {} rows", r, w.rows);
  dequantise_row(w.type, w.row(r), w.cols, out);
  if (w.scale == 1.0f) return;
  for (int64_t i = 0; i < w.cols; ++i) out[i] *= w.scale;
}

void multiply(const Weight& w, MatF32 x, MatF32 y) {
  CHECK(x.cols == w.cols && y.cols == w.rows && x.rows == y.rows, "weight {} x {}, input {} x {}, output {} x {}",
        w.cols, w.rows, x.rows, x.cols, y.rows, y.cols);
  if (x.rows == 0) return;
  std::vector<float> weights(static_cast<size_t>(w.cols));
  for (int o = 0; o < y.cols; ++o) {
    weight_row(w, o, weights.data());
    for (int r = 0; r < x.rows; ++r) y.row(r)[o] = dot(weights.data(), x.row(r), w.cols);
  }
}

}  // namespace plain

void PlainOps::linear(std::span<const Weight> ws, MatF32 x, std::span<const MatF32> ys, RowRole) {
  CHECK(ws.size() == ys.size(), "{} weights, {} outputs", ws.size(), ys.size());
  for (size_t i = 0; i < ws.size(); ++i) plain::multiply(ws[i], x, ys[i]);
}

void PlainOps::head(const Weight& w, MatF32 x, std::span<const int> rows, MatF32 logits) {
  CHECK(x.cols == w.cols && logits.cols == w.rows && logits.rows == static_cast<int>(rows.size()),
        "head {} x {}, input width {}, logits {} x {} for {} rows", w.cols, w.rows, x.cols, logits.rows, logits.cols,
        rows.size());
  std::vector<float> weights(static_cast<size_t>(w.cols));
  for (int o = 0; o < logits.cols; ++o) {
    plain::weight_row(w, o, weights.data());
    for (int i = 0; i < logits.rows; ++i) {
      const int r = rows[static_cast<size_t>(i)];
      CHECK(r >= 0 && r < x.rows, "row {} of {}", r, x.rows);
      logits.row(i)[o] = plain::dot(weights.data(), x.row(r), w.cols);
    }
  }
}

void PlainOps::embed(const Weight& table, std::span<const TokenId> ids, std::span<const float* const> embeddings,
                     MatF32 streams, int n_streams) {
  const auto width = static_cast<int>(table.cols);
  CHECK(static_cast<int>(ids.size()) == streams.rows && streams.cols == n_streams * width,
        "{} ids, streams {} x {}, {} streams of {}", ids.size(), streams.rows, streams.cols, n_streams, width);
  CHECK(embeddings.empty() || embeddings.size() == ids.size(), "{} embeddings, {} ids", embeddings.size(), ids.size());
  for (int r = 0; r < streams.rows; ++r) {
    const auto i = static_cast<size_t>(r);
    float* first = streams.row(r);
    if (!embeddings.empty() && embeddings[i] != nullptr) {
      std::copy_n(embeddings[i], width, first);
    } else {
      plain::weight_row(table, ids[i].v, first);
    }
    for (int s = 1; s < n_streams; ++s) std::copy_n(first, width, first + s * width);
  }
}

}  // namespace strata
