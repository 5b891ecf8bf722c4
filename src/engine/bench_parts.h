// What the files of the bench share: timing a call, the working set, and the limits that a time is held against.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "cpu/kernels.h"
#include "engine/bench_kernels.h"
#include "os/large_memory.h"
#include "os/threads.h"

namespace strata {

struct CallTimes {
  double median_s = 0;
  double fast_s = 0;  // a tenth of the batches took less
  double quarter_s = 0, three_quarters_s = 0;
};
CallTimes call_times(std::vector<double> samples);

inline double bench_clock_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Calls over and over for about budget_s, in batches that the clock resolves.
template <class F>
CallTimes time_calls(double budget_s, F&& call) {
  const double batch_s = std::min(1e-3, budget_s / 5);
  double spent = 0;
  const auto batch = [&](int64_t calls) {
    const double start = bench_clock_s();
    for (int64_t i = 0; i < calls; ++i) call();
    const double took = std::max(bench_clock_s() - start, 1e-9);
    spent += took;
    return took;
  };
  int64_t calls = 1;
  for (double took = 0; (took = batch(calls)) < batch_s / 2 && spent < budget_s;)
    calls = static_cast<int64_t>(static_cast<double>(calls) * std::min(batch_s / took, 1e3)) + 1;
  std::vector<double> samples;
  while (samples.empty() || spent < budget_s) samples.push_back(batch(calls) / static_cast<double>(calls));
  return call_times(std::move(samples));
}

// The pools and the memory that all cells use.
struct BenchRoom {
  const Kernels& kernels;
  LargeMemory memory;
  std::vector<WorkerPool*> pools;  // of one thread, and of all where that is more
  double cell_s;
};

std::vector<BenchRates> measure_rates(const BenchRoom& room);

// Fills in the times, and what they are of the nearer limit.
void judge(BenchCell& cell, const CallTimes& times, const std::vector<BenchRates>& rates, bool in_floats);

// Called after each cell.
using CellFn = std::function<Status(const BenchCell&)>;
int count_mixer_cells(const BenchRoom& room);
Status bench_mixers(const BenchRoom& room, const std::vector<BenchRates>& rates, const CellFn& done);

}  // namespace strata
