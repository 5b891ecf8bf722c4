// Times of the operations beside the weight matrices: delta net, sparse attention, block selection, hyper step, n-gram
// injection; with the geometry of the bundled model and of the real one, for generated rows and prompt chunks, at
// several depths, on one and two threads. "bytes" of a line are those that the operation has to read and write.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "cpu/ops_cpu.h"

namespace strata {
namespace {

struct Geometry {
  const char* name;
  int d_model, rank, heads, kv_heads, head_dim, pairs, index_heads, index_dim, budget_blocks;
  int k_heads, v_heads, gdn_dim;
  int layers;  // that take turns, so that what they remember is as far away as in a whole model
  int ngram_heads, ngram_width;
};
constexpr Geometry kGeometries[] = {
    {"bundled", 256, 32, 4, 2, 64, 16, 4, 32, 128, 2, 4, 64, 48, 8, 32},
    {"real", 2560, 320, 24, 2, 256, 32, 4, 128, 512, 16, 48, 128, 12, 16, 160},
};
constexpr int kStreams = 4, kBlockTokens = 4, kTaps = 4, kChunk = 512;

class Noise {
 public:
  float next() {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<float>(static_cast<int32_t>(state_)) * 0x1p-31f;
  }
  // Aligned to a cache line, as the engine's memory is.
  float* floats(int64_t n, float scale = 1.0f, float mean = 0.0f) {
    memory_.emplace_back(static_cast<size_t>(n) + 16);
    float* first = memory_.back().data();
    while (reinterpret_cast<uintptr_t>(first) % 64 != 0) ++first;
    for (int64_t i = 0; i < n; ++i) first[i] = mean + scale * next();
    return first;
  }
  MatF32 matrix(int rows, int cols, float scale = 1.0f) { return {floats(int64_t{rows} * cols, scale), rows, cols}; }
  Weight weight(int rows, int cols) {
    Weight w{DType::F32, cols, rows};
    w.data = reinterpret_cast<const std::byte*>(floats(int64_t{rows} * cols, 1.0f / std::sqrt(float(cols))));
    return w;
  }

 private:
  uint32_t state_ = 1;
  std::vector<std::vector<float>> memory_;
};

// One layer of each kind and a sequence of `depth` positions. Values in the pages are finite and differ.
struct Bench {
  const Geometry& g;
  Noise noise;
  WorkerPool pool;
  CpuOps ops;
  SequenceView sequence;
  std::vector<GdnState> gdn_states;
  std::vector<KvLayer> layers;
  std::vector<std::byte*> pages;
  std::vector<Pos3> ring_pos;
  std::vector<int32_t> blocks, count;
  size_t turn = 0;

  Bench(const Geometry& geometry, int threads, int depth)
      : g(geometry), pool(threads), ops(pool, *available_kernels().front()) {
    OpsShapes s;
    s.max_rows = kChunk;
    s.d_model = g.d_model;
    s.streams = kStreams;
    s.hyper_rank = g.rank;
    s.max_linear_inputs = kStreams * g.d_model;
    s.max_gdn_channels = 2 * g.k_heads * g.gdn_dim + g.v_heads * g.gdn_dim;
    s.max_heads = g.heads;
    s.max_head_dim = g.head_dim;
    s.ngram_width = g.ngram_heads * g.ngram_width;
    s.max_context = depth + kChunk;
    s.max_index_heads = g.index_heads;
    s.max_index_dim = g.index_dim;
    s.block_tokens = kBlockTokens;
    if (!ops.reserve(s).ok()) std::abort();
    make_pages(depth + kChunk);
  }

  // Deep sequences have one layer, which is large enough by itself.
  void make_pages(int positions) {
    const int width = g.kv_heads * g.head_dim, ring = kChunk + kBlockTokens;
    const size_t values = static_cast<size_t>(kPageTokens) * static_cast<size_t>(width) * 2;
    const size_t keys = static_cast<size_t>(kPageTokens / kBlockTokens * g.index_dim) * 4;
    const size_t layer_bytes = 2 * values + keys;
    const int n_layers = positions > 8192 ? 1 : g.layers;
    for (int i = 0; i < n_layers; ++i) {
      const size_t at = static_cast<size_t>(i) * layer_bytes;
      layers.push_back({at, at + values, at + 2 * values, width, width, g.index_dim, kBlockTokens,
                        noise.floats(int64_t{ring} * g.index_dim)});
    }
    for (int p = 0; p < positions; p += kPageTokens) {
      pages.push_back(reinterpret_cast<std::byte*>(noise.floats(static_cast<int64_t>(layer_bytes) * n_layers / 4)));
      for (const KvLayer& layer : layers) {
        auto* halves = reinterpret_cast<uint16_t*>(pages.back() + layer.k_offset);
        for (size_t i = 0; i < values; ++i) halves[i] &= 0xbbff;  // below 1
      }
    }
    ring_pos.resize(static_cast<size_t>(ring));
    sequence.kv = {KvFormat::f16, pages.data(), layers.data(), ring_pos.data(), ring};
  }
  int next_layer(size_t n) { return static_cast<int>(turn++ % n); }

  QsaWeights qsa() {
    QsaWeights w;
    w.heads = g.heads;
    w.kv_heads = g.kv_heads;
    w.head_dim = w.value_dim = g.head_dim;
    w.index_heads = g.index_heads;
    w.index_dim = g.index_dim;
    w.block_tokens = kBlockTokens;
    w.budget_blocks = g.budget_blocks;
    w.scale = 1.0f / std::sqrt(float(g.head_dim));
    w.eps = 1e-6f;
    w.q_norm = noise.floats(g.head_dim);
    w.k_norm = noise.floats(g.head_dim);
    w.index_q_norm = noise.floats(g.index_dim);
    w.index_k_norm = noise.floats(g.index_dim);
    for (int i = 0; i < std::min(g.pairs, g.index_dim / 2); ++i) {
      w.rope.inv_freq.push_back(std::pow(1e6f, -float(i) / float(g.pairs)));
      w.rope.axis.push_back(static_cast<uint8_t>(i % 3));
    }
    return w;
  }

  Queries queries(int rows) {
    return {noise.matrix(rows, g.heads * g.head_dim, 2.0f), noise.matrix(rows, g.heads * g.head_dim),
            noise.matrix(rows, g.index_heads * g.index_dim)};
  }
  Selection selection(int rows) {
    blocks.assign(static_cast<size_t>(rows) * static_cast<size_t>(g.budget_blocks), 0);
    count.assign(static_cast<size_t>(rows), Selection::kAll);
    return {blocks.data(), count.data(), g.budget_blocks};
  }
  Segment segment(int rows, int depth) {
    return {&sequence, 0, rows, depth, rows <= kMaxWindow ? RowRole::generated : RowRole::prompt};
  }

  ConvState conv(int rows, int width) {
    ConvState c{noise.floats(int64_t{rows} * width), noise.floats(int64_t{rows} * width), {}, rows, width};
    for (float*& log : c.log) log = noise.floats(int64_t{kMaxWindow} * width);
    return c;
  }
  GdnWeights gdn() {
    GdnWeights w;
    w.k_heads = g.k_heads;
    w.v_heads = g.v_heads;
    w.k_dim = w.v_dim = g.gdn_dim;
    w.conv_kernel = kTaps;
    w.eps = 1e-6f;
    w.conv = noise.floats(int64_t{w.channels()} * kTaps);
    w.dt_bias = noise.floats(w.v_heads);
    w.a = noise.floats(w.v_heads, 0.01f, -0.1f);
    w.norm = noise.floats(w.v_dim);
    const int64_t state = int64_t{g.v_heads} * g.gdn_dim * g.gdn_dim;
    for (int i = 0; i < g.layers; ++i) {
      GdnState s;
      s.base = noise.floats(state, 0.1f);
      s.next = noise.floats(state, 0.1f);
      for (size_t log = 0; log < 2; ++log) {
        s.decay[log] = noise.floats(kMaxWindow * w.v_heads, 0.01f, 0.9f);
        s.key[log] = noise.floats(kMaxWindow * w.k_heads * w.k_dim, 0.1f);
        s.update[log] = noise.floats(kMaxWindow * w.v_heads * w.v_dim, 0.1f);
      }
      s.conv = conv(kTaps - 1, w.channels());
      gdn_states.push_back(s);
    }
    sequence.gdn = gdn_states.data();
    return w;
  }
};

void select_blocks(benchmark::State& state, const Geometry& g, int rows, int depth, int threads) {
  Bench b(g, threads, depth);
  const QsaWeights w = b.qsa();
  const Queries q = b.queries(rows);
  const Selection s = b.selection(rows);
  const Segment segment = b.segment(rows, depth);
  for ([[maybe_unused]] auto _ : state) b.ops.select_blocks(w, b.next_layer(b.layers.size()), q, {&segment, 1}, s);
  state.SetBytesProcessed(state.iterations() * (depth / kBlockTokens) * g.index_dim * 4);
}

void sparse_attention(benchmark::State& state, const Geometry& g, int rows, int depth, int threads) {
  Bench b(g, threads, depth);
  const QsaWeights w = b.qsa();
  const Queries q = b.queries(rows);
  const Selection s = b.selection(rows);
  const Segment segment = b.segment(rows, depth);
  b.ops.select_blocks(w, 0, q, {&segment, 1}, s);
  const MatF32 out = b.noise.matrix(rows, g.heads * g.head_dim);
  for ([[maybe_unused]] auto _ : state)
    b.ops.sparse_attention(w, b.next_layer(b.layers.size()), q, s, {&segment, 1}, out);
  const int64_t seen = std::min(depth + 1, g.budget_blocks * kBlockTokens);
  state.SetBytesProcessed(state.iterations() * rows * seen * g.kv_heads * g.head_dim * 4);
}

void attention_prepare(benchmark::State& state, const Geometry& g, int rows, int depth, int threads) {
  Bench b(g, threads, depth);
  const QsaWeights w = b.qsa();
  const Segment segment = b.segment(rows, depth);
  Noise& n = b.noise;
  const QsaInputs in{n.matrix(rows, 2 * g.heads * g.head_dim), n.matrix(rows, g.kv_heads * g.head_dim),
                     n.matrix(rows, g.kv_heads * g.head_dim), n.matrix(rows, g.index_heads * g.index_dim),
                     n.matrix(rows, g.index_dim)};
  std::vector<Pos3> positions;
  for (int r = 0; r < rows; ++r) positions.push_back({depth + r, depth + r, depth + r});
  const Queries out = b.queries(rows);
  for ([[maybe_unused]] auto _ : state)
    b.ops.attention_prepare(w, b.next_layer(b.layers.size()), in, positions, {&segment, 1}, out);
  state.SetBytesProcessed(state.iterations() * rows * 4 * (in.q.cols + 2 * in.k.cols + out.q.cols + out.gate.cols));
}

void gdn_mix(benchmark::State& state, const Geometry& g, int rows, int, int threads) {
  Bench b(g, threads, 0);
  const GdnWeights w = b.gdn();
  const Segment segment = b.segment(rows, 0);
  const GdnInputs in{b.noise.matrix(rows, w.channels()), b.noise.matrix(rows, w.value_width()),
                     b.noise.matrix(rows, w.v_heads), b.noise.matrix(rows, w.v_heads)};
  const MatF32 out = b.noise.matrix(rows, w.value_width());
  const bool generated = rows <= kMaxWindow;
  for ([[maybe_unused]] auto _ : state) {
    b.sequence.kept_rows = generated ? 1 : 0;
    b.ops.gdn_mix(w, b.next_layer(b.gdn_states.size()), in, {&segment, 1}, out);
    if (b.turn % b.gdn_states.size() == 0) b.sequence.log_current = 1 - b.sequence.log_current;
  }
  state.SetBytesProcessed(state.iterations() * 8 * w.v_heads * w.k_dim * w.v_dim);  // read and written once
}

void hyper_step(benchmark::State& state, const Geometry& g, int rows, int, int threads) {
  Bench b(g, threads, 0);
  Noise& n = b.noise;
  const int wide = kStreams * g.d_model;
  const HyperWeights w{n.floats(wide),
                       n.weight(g.rank, wide),
                       n.weight(wide, g.rank),
                       n.weight(kStreams, wide),
                       kStreams,
                       g.d_model,
                       g.rank,
                       1e-6f};
  const MatF32 streams = n.matrix(rows, wide);
  const SublayerOutput previous{n.matrix(rows, g.d_model, 1e-3f), n.matrix(rows, kStreams)};
  const HyperRead out{n.matrix(rows, g.d_model), n.matrix(rows, kStreams)};
  for ([[maybe_unused]] auto _ : state) b.ops.hyper_step(streams, previous, w, out);
  state.SetBytesProcessed(state.iterations() * 4 * (int64_t{rows} * wide * 2 + int64_t{2} * g.rank * wide));
}

void hyper_flush(benchmark::State& state, const Geometry& g, int rows, int, int threads) {
  Bench b(g, threads, 0);
  const MatF32 streams = b.noise.matrix(rows, kStreams * g.d_model);
  const SublayerOutput previous{b.noise.matrix(rows, g.d_model, 1e-3f), b.noise.matrix(rows, kStreams)};
  for ([[maybe_unused]] auto _ : state) b.ops.hyper_flush(streams, previous);
  state.SetBytesProcessed(state.iterations() * 4 * int64_t{rows} * streams.cols * 2);
}

void ngram_inject(benchmark::State& state, const Geometry& g, int rows, int, int threads) {
  Bench b(g, threads, 0);
  Noise& n = b.noise;
  const int wide = kStreams * g.d_model, width = g.ngram_heads * g.ngram_width;
  PleWeights w{n.weight(wide, width),
               n.weight(g.d_model, width),
               n.floats(wide),
               n.floats(wide),
               n.floats(wide),
               n.floats(int64_t{wide} * kTaps),
               kStreams,
               g.d_model,
               kTaps,
               3,
               1e-6f};
  b.sequence.ple = b.conv(w.history_rows(), wide);
  std::vector<uint64_t> ids(static_cast<size_t>(rows * g.ngram_heads));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i * 37 % 1000;
  const NgramRows table{n.weight(1000, g.ngram_width), ids.data(), g.ngram_heads};
  const Segment segment = b.segment(rows, 0);
  const MatF32 streams = n.matrix(rows, wide);
  for ([[maybe_unused]] auto _ : state) b.ops.ngram_inject(w, table, {&segment, 1}, streams, segment.role);
  state.SetBytesProcessed(state.iterations() * 4 * (int64_t{rows} * wide * 2 + int64_t{5} * g.d_model * width));
}

using Function = void (*)(benchmark::State&, const Geometry&, int, int, int);

void add(const char* name, Function f, const std::vector<int>& rows, const std::vector<int>& depths) {
  for (const Geometry& g : kGeometries) {
    for (const int r : rows) {
      for (const int depth : depths) {
        for (const int threads : {1, 2}) {
          const auto title = fmt::format("{}/{}/rows:{}/depth:{}/threads:{}", name, g.name, r, depth, threads);
          benchmark::RegisterBenchmark(title.c_str(),
                                       [=, &g](benchmark::State& state) { f(state, g, r, depth, threads); })
              ->UseRealTime()
              ->Unit(benchmark::kMicrosecond)
              ->ComputeStatistics("min",
                                  [](const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); });
        }
      }
    }
  }
}

void add_all() {
  add("gdn_mix", gdn_mix, {1, 4, 128, 512}, {0});
  add("attention_prepare", attention_prepare, {1, 128, 512}, {4096});
  add("select_blocks", select_blocks, {1}, {4096, 32768, 131072, 262144});
  add("select_blocks", select_blocks, {128, 512}, {4096, 32768});
  add("sparse_attention", sparse_attention, {1}, {256, 1024, 4096, 32768, 262144});
  add("sparse_attention", sparse_attention, {128, 512}, {0, 4096});
  add("hyper_step", hyper_step, {1, 128, 512}, {0});
  add("hyper_flush", hyper_flush, {1, 512}, {0});
  add("ngram_inject", ngram_inject, {1, 128, 512}, {0});
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  strata::add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
