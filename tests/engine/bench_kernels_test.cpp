#include "engine/bench_kernels.h"

#include <cmath>
#include <set>

#include "engine/bench_parts.h"

namespace strata {
namespace {

BenchSettings quick() {
  BenchSettings settings;
  settings.threads = 2;
  settings.cell_s = 1e-4;
  settings.working_set_bytes = size_t{16} << 20;
  return settings;
}
Machine a_machine() {
  Machine m;
  m.cpu_model = "Example CPU";
  m.ram_available = uint64_t{1} << 30;
  return m;
}
Status go_on(const BenchProgress&) {
  return {};
}

const BenchRates& rates_of(const BenchReport& report, int threads) {
  for (const BenchRates& r : report.rates) {
    if (r.threads == threads) return r;
  }
  ADD_FAILURE() << "no rates of " << threads << " threads";
  return report.rates.front();
}

double limit_us(const BenchCell& cell, const BenchRates& r) {
  switch (cell.limit) {
    case BenchLimit::read:
      return cell.bytes / r.read_gb_per_s * 1e-3;
    case BenchLimit::int8:
      return cell.flops / r.int8_gflop_per_s * 1e-3;
    case BenchLimit::float32:
      return cell.flops / r.float_gflop_per_s * 1e-3;
    case BenchLimit::none:
      break;
  }
  return 0;
}

TEST(BenchKernels, EveryFormatIsMeasuredWithAllRowsAndThreads) {
  std::vector<BenchProgress> told;
  const Result<BenchReport> report = bench_kernels(quick(), a_machine(), [&](const BenchProgress& p) {
    told.push_back(p);
    return Status();
  });
  ASSERT_TRUE(report.ok()) << report.status().text();
  EXPECT_EQ(report->cpu, "Example CPU");
  ASSERT_EQ(report->rates.size(), 2u);
  ASSERT_EQ(report->rates_after.size(), 2u);
  std::set<std::string> weights, mixers;
  for (const BenchCell& c : report->cells) {
    const std::string key = fmt::format("{} {} rows {} threads {}", c.name, c.shape, c.rows, c.threads);
    EXPECT_TRUE((c.group == "weights" ? weights : mixers).insert(key).second) << key << " twice";
  }
  for (const TypeTraits& t : all_types()) {
    for (const int rows : kBenchRows) {
      for (const int threads : {1, 2})
        EXPECT_EQ(weights.count(fmt::format("{} 2560 x 640 rows {} threads {}", t.name, rows, threads)), 1u) << t.name;
    }
  }
  EXPECT_EQ(weights.size(), all_types().size() * std::size(kBenchRows) * 2);
  EXPECT_EQ(mixers.count("delta_pass 48 x 128 x 128 rows 1 threads 2"), 1u);
  EXPECT_EQ(mixers.count("rms_norm 2560 rows 1 threads 1"), 1u);
  EXPECT_EQ(told.back().done, told.back().total);
  EXPECT_EQ(told.back().total, static_cast<int>(report->cells.size()));
}

TEST(BenchKernels, NumbersAreFiniteAndThePercentIsThatOfTheNearerLimit) {
  BenchSettings settings = quick();
  for (const std::optional<DType> format :
       {std::optional(DType::Q4_K), std::optional(DType::BF16), std::optional<DType>()}) {
    settings.format = format;
    const Result<BenchReport> report = bench_kernels(settings, a_machine(), go_on);
    ASSERT_TRUE(report.ok()) << report.status().text();
    for (const BenchRates& r : report->rates) {
      for (const double x : {r.read_gb_per_s, r.int8_gflop_per_s, r.float_gflop_per_s})
        EXPECT_TRUE(std::isfinite(x) && x > 0) << x;
    }
    for (const BenchCell& c : report->cells) {
      const std::string what = fmt::format("{} {} rows {} threads {}", c.name, c.shape, c.rows, c.threads);
      EXPECT_TRUE(std::isfinite(c.us) && c.us > 0) << what;
      EXPECT_TRUE(c.us_best > 0 && c.us_best <= c.us) << what;
      EXPECT_TRUE(c.spread >= 0 && std::isfinite(c.gvalues_per_s()) && c.gvalues_per_s() > 0) << what;
      const BenchRates& r = rates_of(*report, c.threads);
      EXPECT_NEAR(c.percent, 100 * limit_us(c, r) / c.us, 1e-6 * c.percent) << what;
      EXPECT_EQ(c.limit == BenchLimit::none, c.bytes == 0 && c.flops == 0) << what;
      if (c.group != "weights") continue;
      const double flop_rate =
          c.name == "BF16" || c.name == "F16" || c.name == "F32" ? r.float_gflop_per_s : r.int8_gflop_per_s;
      const double read_us = c.bytes / r.read_gb_per_s, flop_us = c.flops / flop_rate;
      EXPECT_EQ(c.limit == BenchLimit::read, read_us >= flop_us) << what;
      EXPECT_EQ(c.flops, 2.0 * c.rows * 2560 * 640) << what;
    }
  }
}

TEST(BenchKernels, OneFormatLeavesOutTheRest) {
  BenchSettings settings = quick();
  settings.threads = 1;
  settings.format = DType::IQ2_XS;
  const Result<BenchReport> report = bench_kernels(settings, a_machine(), go_on);
  ASSERT_TRUE(report.ok()) << report.status().text();
  EXPECT_EQ(report->cells.size(), std::size(kBenchRows));
  EXPECT_EQ(report->rates.size(), 1u);
  for (const BenchCell& c : report->cells) EXPECT_EQ(c.name, "IQ2_XS");
}

TEST(BenchKernels, RunsOnEveryInstructionSet) {
  BenchSettings settings = quick();
  settings.threads = 1;
  settings.format = DType::Q8_0;
  for (const Kernels* kernels : available_kernels()) {
    settings.isa = kernels->isa;
    const Result<BenchReport> report = bench_kernels(settings, a_machine(), go_on);
    ASSERT_TRUE(report.ok()) << report.status().text();
    EXPECT_EQ(report->isa, kernels->isa);
  }
  settings.isa = "no such set";
  EXPECT_EQ(bench_kernels(settings, a_machine(), go_on).status().code(), Code::invalid_argument);
}

TEST(BenchKernels, ItMayBeInterrupted) {
  const auto stop = [](const BenchProgress& p) { return p.done < 3 ? Status() : Status(Code::cancelled, "enough"); };
  EXPECT_EQ(bench_kernels(quick(), a_machine(), stop).status().code(), Code::cancelled);
}

TEST(BenchKernels, TheWorkingSetLeavesHalfOfTheFreeMemory) {
  BenchSettings settings = quick();
  settings.threads = 1;
  settings.format = DType::Q8_0;
  settings.working_set_bytes = size_t{64} << 20;
  Machine small = a_machine();
  small.ram_available = uint64_t{60} << 20;
  EXPECT_EQ(bench_kernels(settings, small, go_on)->working_set_bytes, size_t{30} << 20);
  small.ram_available = 0;  // unknown
  EXPECT_EQ(bench_kernels(settings, small, go_on)->working_set_bytes, size_t{64} << 20);
}

TEST(BenchKernels, DriftIsTheLargestRelativeDifference) {
  BenchReport report;
  EXPECT_EQ(report.drift(), 0);
  report.rates = {{1, 10, 200, 50}, {2, 20, 400, 100}};
  report.rates_after = {{1, 9, 200, 50}, {2, 20, 500, 100}};
  EXPECT_DOUBLE_EQ(report.drift(), 0.2);
}

TEST(BenchKernels, ScalingIsWhatAllThreadsBringForEachOfThem) {
  BenchReport report;
  EXPECT_EQ(report.scaling(), 1);
  report.rates = {{1, 10, 200, 50}, {4, 20, 600, 100}};
  EXPECT_DOUBLE_EQ(report.scaling(), 0.75);
}

TEST(BenchKernels, TimesAreThoseOfTheSortedBatches) {
  const CallTimes t = call_times({5, 1, 4, 2, 3});
  EXPECT_EQ(t.median_s, 3);
  EXPECT_EQ(t.quarter_s, 2);
  EXPECT_EQ(t.three_quarters_s, 4);
  EXPECT_EQ(t.fast_s, 1);
  EXPECT_EQ(call_times({7}).median_s, 7);
}

}  // namespace
}  // namespace strata
