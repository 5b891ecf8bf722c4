// The limits of the bench: what the machine does when it does one thing only.
#include <atomic>

#include "cpu/rates.h"
#include "engine/bench_parts.h"

namespace strata {
namespace {

constexpr double kRateCells = 4;                 // a limit is worth the time of so many cells
constexpr size_t kPieceBytes = size_t{4} << 20;  // that a thread reads at once
constexpr int64_t kRounds = 20'000;

double read_rate(const BenchRoom& room, WorkerPool& pool, double budget_s) {
  const size_t threads = static_cast<size_t>(pool.n_threads());
  const size_t piece = std::min(kPieceBytes, room.memory.bytes() / threads / 1024 * 1024);
  const size_t rounds = std::max<size_t>(room.memory.bytes() / (piece * threads), 1);
  size_t round = 0;
  std::atomic<uint64_t> sum{0};
  const CallTimes times = time_calls(budget_s, [&] {
    pool.run(pool.n_threads(), [&](int task, int) {
      const size_t at = (round * threads + static_cast<size_t>(task)) * piece;
      sum.fetch_xor(room.kernels.rates->read(room.memory.data() + at, piece), std::memory_order_relaxed);
    });
    round = (round + 1) % rounds;
  });
  return static_cast<double>(piece * threads) / times.fast_s * 1e-9;
}

// products(): does some on one thread and returns how many.
template <class F>
double product_rate(WorkerPool& pool, double budget_s, F products) {
  std::atomic<int64_t> count{0};
  const CallTimes times = time_calls(budget_s, [&] {
    count = 0;
    pool.run(pool.n_threads(), [&](int, int) { count.fetch_add(products(), std::memory_order_relaxed); });
  });
  return 2e-9 * static_cast<double>(count.load()) / times.fast_s;
}

}  // namespace

CallTimes call_times(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double part) {
    return samples[static_cast<size_t>(part * static_cast<double>(samples.size() - 1))];
  };
  return {at(0.5), at(0.1), at(0.25), at(0.75)};
}

std::vector<BenchRates> measure_rates(const BenchRoom& room) {
  const double budget_s = kRateCells * room.cell_s;
  std::vector<BenchRates> rates;
  for (WorkerPool* pool : room.pools) {
    BenchRates r;
    r.threads = pool->n_threads();
    r.read_gb_per_s = read_rate(room, *pool, budget_s);
    r.int8_gflop_per_s = product_rate(*pool, budget_s, [&] {
      int32_t result[16] = {1, 2, 3};
      return room.kernels.rates->int8_products(kRounds, result);
    });
    r.float_gflop_per_s = product_rate(*pool, budget_s, [&] {
      float result[16] = {};
      return room.kernels.rates->float_products(kRounds, result);
    });
    rates.push_back(r);
  }
  return rates;
}

void judge(BenchCell& cell, const CallTimes& times, const std::vector<BenchRates>& rates, bool in_floats) {
  cell.us = times.median_s * 1e6;
  cell.us_best = times.fast_s * 1e6;
  cell.spread = (times.three_quarters_s - times.quarter_s) / (2 * times.median_s);
  const auto of =
      std::find_if(rates.begin(), rates.end(), [&](const BenchRates& r) { return r.threads == cell.threads; });
  CHECK(of != rates.end(), "no rates of {} threads", cell.threads);
  const double read_us = cell.bytes / of->read_gb_per_s * 1e-3;
  const double flop_us = cell.flops / (in_floats ? of->float_gflop_per_s : of->int8_gflop_per_s) * 1e-3;
  if (read_us <= 0 && flop_us <= 0) return;
  cell.limit = read_us >= flop_us ? BenchLimit::read : in_floats ? BenchLimit::float32 : BenchLimit::int8;
  cell.percent = 100 * std::max(read_us, flop_us) / cell.us;
}

}  // namespace strata
