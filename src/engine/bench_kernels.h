// How fast the kernels of the processor are, and how much of what this machine can do that is. First the machine is
// measured (reading memory, multiplying), then every weight format at several numbers of rows, then the kernels that
// are no weight matrix, with the sizes that they have in the published model. Needs no model file. Weights and states
// come from memory, a fresh copy for each call; what is small stays in the cache, as it does in a run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/machine.h"
#include "tensor/tensor.h"

namespace strata {

struct BenchSettings {
  std::string isa = "auto";
  int threads = 0;                               // 0: one for each core that may be used
  std::optional<DType> format;                   // only the products of this format
  double cell_s = 0.08;                          // spent on one cell, and four times that on each rate of the machine
  size_t working_set_bytes = size_t{512} << 20;  // cut to half of what memory is free
};

// What the machine can do at best with so many threads.
struct BenchRates {
  int threads = 0;
  double read_gb_per_s = 0;
  double int8_gflop_per_s = 0, float_gflop_per_s = 0;  // a multiplication and an addition count as two
};

// What a cell runs against: reading memory, or multiplying in int8 or in float32.
enum class BenchLimit : uint8_t { none, read, int8, float32 };

struct BenchCell {
  std::string group;  // "weights" or "mixers"
  std::string name;   // of a format or a kernel
  std::string shape;  // "2560 x 640"
  int rows = 1;       // batch rows of a call
  int threads = 1;
  double us = 0;       // of a call: the median
  double us_best = 0;  // the tenth part was faster than this
  double spread = 0;   // half of the calls lie within this part of the median, above and below
  double values = 0;   // weights, or values, that a call works through
  double bytes = 0;    // that a call has to read from memory; 0: all is in the cache
  double flops = 0;    // 0: not counted, where exponentials cost more than products
  BenchLimit limit = BenchLimit::none;
  double percent = 0;  // of that limit; 0 without one

  double gvalues_per_s() const { return values / us * 1e-3; }
  double gb_per_s() const { return bytes / us * 1e-3; }
  double gflop_per_s() const { return flops / us * 1e-3; }
};

struct BenchReport {
  std::string cpu;  // "" when the system does not say
  std::string isa;
  int threads = 1;
  size_t working_set_bytes = 0;
  double large_page_share = 0;                 // of the working set
  std::vector<BenchRates> rates, rates_after;  // for one thread, and for all where that is more; again at the end
  std::vector<BenchCell> cells;
  double elapsed_s = 0;

  // The largest relative difference between the two measurements of the machine: above a tenth it was not quiet.
  double drift() const;
  // How much faster all threads multiply than one, as a part of their number: far below 1 when others use the cores.
  double scaling() const;
};

struct BenchProgress {
  std::string what;
  int done = 0, total = 0;  // cells
};
// May end the bench by returning a failure.
using BenchProgressFn = std::function<Status(const BenchProgress&)>;

Result<BenchReport> bench_kernels(const BenchSettings& settings, const Machine& machine,
                                  const BenchProgressFn& progress);

inline constexpr int kBenchRows[] = {1, 2, 4, 8, 32, 128};
inline constexpr int kBenchInputs = 2560, kBenchOutputs = 640;  // of the matrices: those of an expert

}  // namespace strata
