#include "engine/bench_kernels.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "cpu/ops_cpu.h"
#include "engine/bench_parts.h"
#include "engine/device_choice.h"
#include "engine/memory_plan.h"
#include "quant/random_blocks.h"

namespace strata {
namespace {

constexpr size_t kAlign = 64;
constexpr size_t kLeastWorkingSet = size_t{16} << 20;

size_t working_set(const BenchSettings& settings, const Machine& machine) {
  const uint64_t half = machine.ram_available > 0 ? machine.ram_available / 2 : settings.working_set_bytes;
  return std::max<size_t>(kLeastWorkingSet, std::min<uint64_t>(half, settings.working_set_bytes));
}

// A matrix of one format, as many times as the working set has room for.
class Copies {
 public:
  Copies(const BenchRoom& room, DType type) {
    weight_.type = type;
    weight_.cols = kBenchInputs;
    weight_.rows = kBenchOutputs;
    data_ = room.memory.data();
    step_ = (weight_.bytes() + kAlign - 1) / kAlign * kAlign;
    count_ = static_cast<int>(room.memory.bytes() / step_);
    random_blocks(type, 1, weight_.rows * (weight_.cols / traits(type).block_elems), data_);
    room.pools.back()->run(count_ - 1, [&](int task, int) {
      std::memcpy(data_ + step_ * static_cast<size_t>(task + 1), data_, weight_.bytes());
    });
  }
  const Weight& next() {
    weight_.data = data_ + step_ * static_cast<size_t>(at_);
    at_ = (at_ + 1) % count_;
    return weight_;
  }
  size_t bytes() const { return weight_.bytes(); }

 private:
  Weight weight_;
  std::byte* data_ = nullptr;
  size_t step_ = 0;
  int count_ = 0, at_ = 0;
};

bool is_float(DType type) {
  return traits(type).block_elems == 1;
}

// The operations on one pool, with rows to multiply.
struct Bench {
  CpuOps ops;
  std::vector<float> inputs, outputs;

  Bench(WorkerPool& pool, const Kernels& kernels) : ops(pool, kernels) {}

  Status reserve() {
    constexpr int kMaxRows = *std::max_element(std::begin(kBenchRows), std::end(kBenchRows));
    OpsShapes shapes;
    shapes.max_rows = kMaxRows;
    shapes.d_model = shapes.max_linear_inputs = kBenchInputs;
    RETURN_IF_ERROR(ops.reserve(shapes));
    inputs.resize(static_cast<size_t>(kMaxRows) * kBenchInputs);
    outputs.resize(static_cast<size_t>(kMaxRows) * kBenchOutputs);
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = std::sin(static_cast<float>(i));
    return {};
  }
  void multiply(const Weight& w, int rows) {
    const MatF32 y{outputs.data(), rows, kBenchOutputs};
    ops.linear({&w, 1}, {inputs.data(), rows, kBenchInputs}, {&y, 1},
               rows <= kMaxWindow ? RowRole::generated : RowRole::prompt);
  }
};

std::vector<DType> formats_of(const BenchSettings& settings) {
  std::vector<DType> formats;
  for (const TypeTraits& t : all_types()) {
    if (!settings.format || *settings.format == t.type) formats.push_back(t.type);
  }
  return formats;
}

Status bench_weights(const BenchRoom& room, const std::vector<DType>& formats, const std::vector<BenchRates>& rates,
                     const CellFn& done) {
  std::vector<std::unique_ptr<Bench>> benches;
  for (WorkerPool* pool : room.pools) {
    benches.push_back(std::make_unique<Bench>(*pool, room.kernels));
    RETURN_IF_ERROR(benches.back()->reserve());
  }
  for (const DType type : formats) {
    Copies copies(room, type);
    for (const int rows : kBenchRows) {
      for (size_t i = 0; i < benches.size(); ++i) {
        BenchCell cell;
        cell.group = "weights";
        cell.name = type_name(type);
        cell.shape = fmt::format("{} x {}", kBenchInputs, kBenchOutputs);
        cell.rows = rows;
        cell.threads = room.pools[i]->n_threads();
        cell.values = double{kBenchInputs} * kBenchOutputs;
        cell.bytes = static_cast<double>(copies.bytes());
        cell.flops = 2.0 * rows * cell.values;
        const CallTimes times = time_calls(room.cell_s, [&] { benches[i]->multiply(copies.next(), rows); });
        judge(cell, times, rates, is_float(type));
        RETURN_IF_ERROR(done(cell));
      }
    }
  }
  return {};
}

}  // namespace

double BenchReport::drift() const {
  double most = 0;
  const auto differ = [&](double a, double b) { most = std::max(most, std::fabs(a - b) / std::max(a, b)); };
  for (size_t i = 0; i < std::min(rates.size(), rates_after.size()); ++i) {
    differ(rates[i].read_gb_per_s, rates_after[i].read_gb_per_s);
    differ(rates[i].int8_gflop_per_s, rates_after[i].int8_gflop_per_s);
    differ(rates[i].float_gflop_per_s, rates_after[i].float_gflop_per_s);
  }
  return most;
}

double BenchReport::scaling() const {
  if (rates.empty()) return 1;
  return rates.back().int8_gflop_per_s / rates.front().int8_gflop_per_s / rates.back().threads;
}

Result<BenchReport> bench_kernels(const BenchSettings& settings, const Machine& machine,
                                  const BenchProgressFn& progress) {
  const double start_s = bench_clock_s();
  RETURN_IF_ERROR(check_device("cpu", settings.isa));
  EngineOptions options;
  options.threads = settings.threads;
  WorkerPool one(1), all(plan_threads(machine, options));
  BenchReport report;
  report.cpu = machine.cpu_model;
  report.working_set_bytes = working_set(settings, machine);
  report.threads = all.n_threads();
  ASSIGN_OR_RETURN(LargeMemory memory, LargeMemory::map(report.working_set_bytes, "working set of the bench"));
  BenchRoom room{*find_kernels(settings.isa), std::move(memory), {&one}, settings.cell_s};
  if (all.n_threads() > 1) room.pools.push_back(&all);
  report.isa = room.kernels.isa;

  const std::vector<DType> formats = formats_of(settings);
  const int per_format = static_cast<int>(std::size(kBenchRows) * room.pools.size());
  const int total = static_cast<int>(formats.size()) * per_format + (settings.format ? 0 : count_mixer_cells(room));
  RETURN_IF_ERROR(progress({"the machine", 0, total}));
  std::memset(room.memory.data(), 1, room.memory.bytes());
  report.large_page_share = room.memory.large_share();
  report.rates = measure_rates(room);
  RETURN_IF_ERROR(progress({type_name(formats.front()), 0, total}));

  const CellFn done = [&](const BenchCell& cell) {
    report.cells.push_back(cell);
    return progress({cell.name, static_cast<int>(report.cells.size()), total});
  };
  RETURN_IF_ERROR(bench_weights(room, formats, report.rates, done));
  if (!settings.format) RETURN_IF_ERROR(bench_mixers(room, report.rates, done));
  report.rates_after = measure_rates(room);
  report.elapsed_s = bench_clock_s() - start_s;
  return report;
}

}  // namespace strata
