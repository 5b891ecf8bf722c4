// The part of the bench beside the weight matrices: each kernel does what one layer of the published model does for one
// token, cut into tasks as the operations cut it.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>

#include "cpu/dots.h"
#include "cpu/mixers.h"
#include "engine/bench_parts.h"

namespace strata {
namespace {

constexpr int kWidth = 2560, kStreams = 4, kExpertWidth = 640;
constexpr int kKeyHeads = 16, kValueHeads = 48, kState = 128, kTaps = 4, kChannels = 10240;
constexpr int kKvHeads = 2, kGroup = 12, kHead = 256, kPositions = 2048, kBlock = 4, kTile = 64;
constexpr int kIndexHeads = 4, kIndexKey = 128, kBlocks = 8192, kBlocksOfPage = 16;

struct Job {
  const char* name;
  std::string shape;
  double values, bytes, flops;
  int tasks;  // 0: all is in the cache, and one thread does it
  std::function<void(int call, int task)> run;
};

// Where call number `call` finds what it reads: `bytes` of the working set that none of the last calls used.
class Places {
 public:
  Places(const BenchRoom& room, size_t bytes) : data_(room.memory.data()), bytes_(bytes) {
    count_ = static_cast<int>(room.memory.bytes() / bytes);
    CHECK(count_ > 0, "a working set of {} bytes, {} for a call", room.memory.bytes(), bytes);
  }
  std::byte* of(int call) const { return data_ + bytes_ * static_cast<size_t>(call % count_); }

 private:
  std::byte* data_;
  size_t bytes_;
  int count_ = 0;
};

class Mixers {
 public:
  Mixers(const BenchRoom& room, int threads)
      : room_(room),
        k_(room.kernels),
        m_(*room.kernels.mixers),
        threads_(threads),
        in_(kInputs),
        out_(static_cast<size_t>(kTasks) * kOutputs) {
    for (size_t i = 0; i < in_.size(); ++i) in_[i] = std::sin(static_cast<float>(i));
  }

  std::vector<Job> jobs() {
    std::vector<Job> all;
    for (const bool half : {true, false}) all.push_back(scores(half));
    for (const bool half : {true, false}) all.push_back(values(half));
    all.push_back(block_scores());
    all.push_back(convolution());
    all.push_back(delta());  // after what reads: it writes
    add_choosing(all);
    add_norms(all);
    add_elementwise(all);
    add_rounding(all);
    return all;
  }

 private:
  static constexpr int kInputs = 32768, kTasks = 32, kOutputs = 32768;

  // Ordinary numbers, which nobody writes, and where task number `task` writes.
  const float* in(int at) const { return in_.data() + at; }
  float* out(int at, int task = 0) { return out_.data() + at + static_cast<size_t>(task) * kOutputs; }

  // A generated row: the row before goes into the state on the way.
  Job delta() {
    const size_t bytes = size_t{kValueHeads} * kState * kState * sizeof(float);
    const double values = double{kValueHeads} * kState * kState;
    const Places places(room_, bytes);
    return {"delta_pass",
            fmt::format("{} x {} x {}", kValueHeads, kState, kState),
            values,
            double(bytes),
            7 * values,
            kKeyHeads,
            [=, this](int call, int task) {
              auto* states = reinterpret_cast<float*>(places.of(call));
              const DeltaFactor before{0.9f, in(0), in(256)};
              for (int head = task; head < kValueHeads; head += kKeyHeads) {
                for (int first = 0; first < kState; first += kDeltaStrip) {
                  float* at = states + head * kState * kState + first;
                  DeltaPass pass{kState, at, kState, at, kState, &before, 1};
                  pass.key = in(512);
                  pass.query = in(1024);
                  pass.query_key = 0.1f;
                  pass.decay = 0.9f;
                  pass.beta = 0.01f;
                  pass.value = in(1536);
                  pass.update = out(0, task);
                  pass.out = out(1024, task);
                  m_.delta_pass(pass);
                }
              }
            }};
  }

  Job convolution() {
    const size_t rows = kTaps - 1 + 1 + kTaps;  // remembered, new, and the weights
    const size_t bytes = rows * kChannels * sizeof(float);
    const Places places(room_, bytes);
    return {"conv_silu",
            fmt::format("{} x {}", kChannels, kTaps),
            double{kChannels},
            static_cast<double>(bytes),
            2.0 * kTaps * kChannels,
            kKeyHeads,
            [=, this](int call, int task) {
              const auto* at = reinterpret_cast<const float*>(places.of(call));
              ConvPass pass;
              pass.past_end = at + (kTaps - 1) * kChannels;
              pass.inputs = pass.past_end;
              pass.weights = pass.inputs + kChannels;
              pass.past_stride = pass.input_stride = kChannels;
              pass.taps = kTaps;
              pass.dilation = 1;
              pass.count = kChannels / kKeyHeads;
              pass.first = task * pass.count;
              pass.n_rows = 1;
              m_.conv_silu(pass, out(0, task), kChannels);
            }};
  }

  // Keys or values of the chosen blocks of a long context, which lie apart from each other.
  struct Pages {
    Places places;
    size_t row_bytes;
    int spacing;  // one block in so many is chosen

    void gather(int call, int kv_head, int first, const std::byte** rows) const {
      const std::byte* at = places.of(call) + static_cast<size_t>(kv_head) * row_bytes / kKvHeads;
      for (int i = 0; i < kTile; ++i) {
        const int block = (first + i) / kBlock;
        const int chosen = block * spacing + (block * 7 + call) % spacing;
        rows[i] = at + static_cast<size_t>(chosen * kBlock + i % kBlock) * row_bytes;
      }
    }
  };
  Pages pages(bool half) const {
    const size_t row_bytes = size_t{kKvHeads} * kHead * (half ? 2 : 4);
    const auto fit = static_cast<int>(room_.memory.bytes() / (row_bytes * kPositions));
    const int spacing = std::clamp(fit / 2, 1, 16);
    return {Places(room_, row_bytes * kPositions * static_cast<size_t>(spacing)), row_bytes, spacing};
  }
  // The query heads of a key head are shared out among the threads.
  int shares() const { return std::clamp((threads_ + kKvHeads - 1) / kKvHeads, 1, kGroup); }

  template <class F>
  Job attention(const char* name, bool half, F tile) {
    const Pages p = pages(half);
    const int n_shares = shares(), heads = (kGroup + n_shares - 1) / n_shares;
    const double values = double{kPositions} * kKvHeads * kHead;
    const auto run = [=](int call, int task) {
      const std::byte* rows[kTile];
      const int kv_head = task % kKvHeads, first_head = task / kKvHeads * heads;
      const int n_heads = std::min(heads, kGroup - first_head);
      for (int first = 0; first < kPositions && n_heads > 0; first += kTile) {
        p.gather(call, kv_head, first, rows);
        tile(KvTile{rows, kTile, kHead, half}, n_heads, task);
      }
    };
    return {name,
            fmt::format("{} {}, {} x {}", half ? "f16" : "f32", kPositions, kKvHeads, kHead),
            values,
            values * (half ? 2 : 4),
            2 * kGroup * values,
            kKvHeads * n_shares,
            run};
  }
  Job scores(bool half) {
    return attention("attend_scores", half, [this](const KvTile& keys, int heads, int task) {
      m_.attend_scores(keys, in(0), heads, 0.06f, out(0, task), kTile);
    });
  }
  Job values(bool half) {
    return attention("attend_values", half, [this](const KvTile& values, int heads, int task) {
      float keep[kGroup];
      std::fill_n(keep, kGroup, 0.5f);
      m_.attend_values(values, in(0), kTile, keep, heads, out(0, task));
    });
  }

  Job block_scores() {
    constexpr int kPiece = 512;  // blocks of a task
    const size_t bytes = size_t{kBlocks} * kIndexKey * sizeof(float);
    const Places places(room_, bytes);
    return {"block_scores",
            fmt::format("{} x {}, {} heads", kBlocks, kIndexKey, kIndexHeads),
            double{kBlocks} * kIndexKey,
            static_cast<double>(bytes),
            2.0 * kIndexHeads * kBlocks * kIndexKey,
            kBlocks / kPiece,
            [=, this](int call, int task) {
              const auto* keys = reinterpret_cast<const float*>(places.of(call));
              for (int b = task * kPiece; b < (task + 1) * kPiece; b += kBlocksOfPage) {
                m_.block_scores(keys + static_cast<int64_t>(b) * kIndexKey, kBlocksOfPage, in(0), kIndexHeads,
                                kIndexKey, out(0, task));
              }
            }};
  }

  // A kernel over n values in the cache, with so many operations for each.
  template <class F>
  void add(std::vector<Job>& all, const char* name, const std::string& shape, int n, double flops, F run) {
    all.push_back({name, shape, double(n), 0, flops * n, 0, [run](int, int) { run(); }});
  }
  template <class F>
  void add(std::vector<Job>& all, const char* name, int n, double flops, F run) {
    add(all, name, fmt::format("{}", n), n, flops, run);
  }

  void add_choosing(std::vector<Job>& all) {
    found_.resize(kBlocks + 1);
    add(all, "count_at_least", kBlocks, 0, [this] { sink_ += m_.count_at_least(in(0), kBlocks, 0.9f); });
    add(all, "find_between", kBlocks, 0,
        [this] { sink_ += m_.find_between(in(0), kBlocks, 0.9f, 2.0f, found_.data()); });
    constexpr int kHeads = kKvHeads * kGroup;
    add(all, "softmax_tile", fmt::format("{} x {}", kHeads, kTile), kHeads * kTile, 0, [this] {
      std::memcpy(out(0), in(0), static_cast<size_t>(kHeads * kTile) * sizeof(float));
      for (int h = 0; h < kHeads; ++h) {
        float highest = 0, total = 0;
        m_.softmax_tile(out(h * kTile), kTile, &highest, &total);
      }
    });
    totals_.assign(static_cast<size_t>(kHeads), 2.0f);
    add(all, "finish_heads", fmt::format("{} x {}", kHeads, kHead), kHeads * kHead, 0, [this] {
      std::memcpy(out(0), in(0), static_cast<size_t>(kHeads * kHead) * sizeof(float));
      m_.finish_heads(out(0), kHeads, kHead, totals_.data(), in(8192));
    });
  }

  void add_norms(std::vector<Job>& all) {
    add(all, "write_and_norm", fmt::format("{} x {}", kStreams, kWidth), kStreams * kWidth, 6, [this] {
      for (int s = 0; s < kStreams; ++s) {
        m_.write_and_norm(out(s * kWidth), in(0), 1e-6f, in(8192), kWidth, 1e-6f, out(16384 + s * kWidth));
      }
    });
    add(all, "rms_norm", kWidth, 4, [this] { k_.rms_norm(in(0), in(8192), kWidth, 1e-6f, out(0)); });
    add(all, "unit_norm", fmt::format("{} x {}", 2 * kKeyHeads, kState), 2 * kKeyHeads * kState, 3, [this] {
      for (int h = 0; h < 2 * kKeyHeads; ++h) k_.unit_norm(out(h * kState), kState, 1e-6f, 1.0f);
    });
    add(all, "add_scaled", kWidth, 2, [this] { k_.add_scaled(out(0), in(0), 1e-9f, kWidth); });
  }

  // What these write is read from elsewhere each time, so that it stays a number.
  template <class F>
  void add_fresh(std::vector<Job>& all, const char* name, int n, F run) {
    add(all, name, n, 0, [this, n, run] {
      std::memcpy(out(0), in(0), static_cast<size_t>(n) * sizeof(float));
      run(out(0), in(8192));
    });
  }
  void add_elementwise(std::vector<Job>& all) {
    add_fresh(all, "silu", kWidth, [this](float* x, const float*) { k_.silu(x, 0.25f, kWidth); });
    add_fresh(all, "silu_times", kExpertWidth, [this](float* x, const float* y) { k_.silu_times(x, y, kExpertWidth); });
    add_fresh(all, "gate", kWidth, [this](float* x, const float* y) { k_.gate(x, y, kWidth); });
    add_fresh(all, "sigmoid", kWidth, [this](float* x, const float*) { k_.sigmoid(x, 0.25f, 2.0f, kWidth); });
    add_fresh(all, "add_gated", kWidth, [this](float* x, const float* y) { k_.add_gated(x, y, y, kWidth); });
    add_fresh(all, "exp_sum", kWidth, [this](float* x, const float*) { k_.exp_sum(x, 1.0f, kWidth); });
  }

  void add_rounding(std::vector<Job>& all) {
    blocks_.resize(static_cast<size_t>(act_blocks(kWidth)));
    for (const ActOrder order : {ActOrder::quads, ActOrder::spread}) {
      const char* name = order == ActOrder::quads ? "quantise quads" : "quantise spread";
      add(all, name, kWidth, 0, [this, order] { k_.dots->quantise(in(0), kWidth, order, blocks_.data()); });
    }
  }

  const BenchRoom& room_;
  const Kernels& k_;
  const MixerKernels& m_;
  const int threads_;
  std::vector<float> in_, out_, totals_;
  std::vector<int32_t> found_;
  std::vector<ActBlock> blocks_;
  int sink_ = 0;
};

// Halves and floats that are numbers of ordinary size, whichever way the bytes are read.
void fill_with_numbers(const BenchRoom& room) {
  constexpr size_t kPiece = size_t{1} << 20;
  const int pieces = static_cast<int>(room.memory.bytes() / kPiece);
  room.pools.back()->run(pieces, [&](int piece, int) {
    auto* to = reinterpret_cast<uint16_t*>(room.memory.data() + kPiece * static_cast<size_t>(piece));
    uint32_t state = static_cast<uint32_t>(piece);
    for (size_t i = 0; i < kPiece / 2; ++i) {
      state = state * 1664525u + 1013904223u;
      to[i] = static_cast<uint16_t>(0x3000u + (state >> 22));  // 0.125 to 0.25, and as floats 5e-10
    }
  });
}

}  // namespace

int count_mixer_cells(const BenchRoom& room) {
  int cells = 0;
  for (const Job& job : Mixers(room, 1).jobs()) cells += job.tasks > 0 ? static_cast<int>(room.pools.size()) : 1;
  return cells;
}

Status bench_mixers(const BenchRoom& room, const std::vector<BenchRates>& rates, const CellFn& done) {
  fill_with_numbers(room);
  std::vector<std::unique_ptr<Mixers>> mixers;
  std::vector<std::vector<Job>> jobs;  // of each pool
  for (const WorkerPool* pool : room.pools) {
    mixers.push_back(std::make_unique<Mixers>(room, pool->n_threads()));
    jobs.push_back(mixers.back()->jobs());
  }
  for (size_t j = 0; j < jobs.front().size(); ++j) {
    for (size_t p = 0; p < room.pools.size(); ++p) {
      const Job& job = jobs[p][j];
      if (job.tasks == 0 && p > 0) continue;
      BenchCell cell;
      cell.group = "mixers";
      cell.name = job.name;
      cell.shape = job.shape;
      cell.threads = room.pools[p]->n_threads();
      cell.values = job.values;
      cell.bytes = job.bytes;
      cell.flops = job.flops;
      int call = 0;
      const CallTimes times = time_calls(room.cell_s, [&] {
        if (job.tasks == 0) return job.run(0, 0);
        room.pools[p]->run(job.tasks, [&](int task, int) { job.run(call, task); });
        ++call;
      });
      judge(cell, times, rates, true);
      RETURN_IF_ERROR(done(cell));
    }
  }
  return {};
}

}  // namespace strata
