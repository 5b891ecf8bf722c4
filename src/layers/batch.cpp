#include "layers/batch.h"

#include <algorithm>

namespace strata {

void Batch::clear() {
  tokens.clear();
  positions.clear();
  embeddings.clear();
  ngram_rows.clear();
  segments.clear();
  routing = nullptr;
}

// Takes from an arena, or only counts what would be taken.
class Activations::Carver {
 public:
  explicit Carver(Arena* arena) : arena_(arena) {}

  MatF32 matrix(int rows, int cols) {
    return {take<float>(static_cast<size_t>(rows) * static_cast<size_t>(cols)), rows, cols};
  }
  template <class T>
  T* take(size_t count) {
    bytes_ += Arena::padded(count * sizeof(T));
    return arena_ != nullptr ? arena_->take<T>(count) : nullptr;
  }
  size_t bytes() const { return bytes_; }

 private:
  Arena* arena_;
  size_t bytes_ = 0;
};

void Activations::carve(Carver& c, const ModelConfig& m, int n, int max_context) {
  max_rows_ = n;
  streams = c.matrix(n, m.wide());
  x = c.matrix(n, m.d_model);
  y = c.matrix(n, m.d_model);
  for (MatF32& g : gains) g = c.matrix(n, m.streams);
  const int gdn_width = m.gdn_v_heads * m.gdn_v_dim, attention_width = m.heads * m.head_dim;
  qkv = c.matrix(n, m.gdn_channels());
  gate = c.matrix(n, gdn_width);
  beta = c.matrix(n, m.gdn_v_heads);
  alpha = c.matrix(n, m.gdn_v_heads);
  q = c.matrix(n, 2 * attention_width);
  k = c.matrix(n, m.kv_heads * m.head_dim);
  v = c.matrix(n, m.kv_heads * m.head_dim);
  index_q = c.matrix(n, m.index_heads * m.index_dim);
  index_k = c.matrix(n, m.index_dim);
  queries.q = c.matrix(n, attention_width);
  queries.gate = c.matrix(n, attention_width);
  queries.index_q = c.matrix(n, m.index_heads * m.index_dim);
  const int blocks = m.block_tokens > 0 ? std::min(m.index_budget, max_context) / m.block_tokens + 1 : 0;
  selection.capacity = blocks;
  selection.blocks = c.take<int32_t>(static_cast<size_t>(n) * static_cast<size_t>(blocks));
  selection.count = c.take<int32_t>(static_cast<size_t>(n));
  mixed = c.matrix(n, std::max(gdn_width, attention_width));
  int used = m.has_draft_head ? m.draft.n_experts_used : 0;
  for (const BlockConfig& b : m.blocks) used = std::max(used, b.n_experts_used);
  routed.ids = c.take<int32_t>(static_cast<size_t>(n) * static_cast<size_t>(used));
  routed.weights = c.take<float>(static_cast<size_t>(n) * static_cast<size_t>(used));
  if (m.has_draft_head) draft_inputs = c.matrix(n * m.streams, 2 * m.d_model);
  logits = c.matrix(kLogitRows, m.vocab);
}

size_t Activations::bytes(const ModelConfig& config, int max_rows, int max_context) {
  Activations counted;
  Carver carver(nullptr);
  counted.carve(carver, config, max_rows, max_context);
  return carver.bytes();
}

Result<std::unique_ptr<Activations>> Activations::create(Memory& memory, const ModelConfig& config, int max_rows,
                                                         int max_context) {
  ASSIGN_OR_RETURN(Buffer buffer, memory.allocate(bytes(config, max_rows, max_context), "activations"));
  auto a = std::make_unique<Activations>();
  a->arena_ = Arena(std::move(buffer));
  Carver carver(&a->arena_);
  a->carve(carver, config, max_rows, max_context);
  return a;
}

void Activations::resize(int rows) {
  CHECK(rows <= max_rows_, "{} rows, room for {}", rows, max_rows_);
  for (MatF32* m : {&streams, &x, &y, &gains[0], &gains[1], &qkv, &gate, &beta, &alpha, &q, &k, &v, &index_q, &index_k,
                    &queries.q, &queries.gate, &queries.index_q, &mixed}) {
    m->rows = rows;
  }
}

}  // namespace strata
