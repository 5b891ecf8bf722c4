// Which bytes the engine will use and why: a pure function of the machine, the model and the options. Nothing is
// allocated here; the engine carves everything from the plan's numbers at start, and `info` prints them without a run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "ops/ops.h"
#include "os/machine.h"

namespace strata {

struct EngineOptions {
  std::string model_path;
  std::string mtp_path;        // "": no draft head
  std::string device = "cpu";  // "plain" or "cpu"
  std::string isa = "auto";    // kernels of the cpu device by name; "auto": the best of the processor
  int max_context = 0;         // tokens; 0: the model's own length, or what fits
  int threads = 0;             // 0: chosen from cores and limits
  std::string kv = "auto";     // "auto", "f32", "f16"
  int chunk_rows = 0;          // prompt rows per step; 0: automatic
  std::string trace_routing;   // file that save_routing writes; "": nothing is recorded
  std::string replay_routing;  // routing trace that decides which experts are used; "": the router does
  int max_drafts = 3;          // tokens the draft head may propose per step; 0: none
};

struct PlanLine {
  std::string what;  // "keys and values"
  uint64_t bytes = 0;
  bool mapped = false;  // file pages that the system may drop, not memory of our own
  std::string why;      // "8192 positions x 3 layers x f16"
};

struct Plan {
  std::vector<PlanLine> lines;
  int max_context = 0;
  int chunk_rows = 0;
  int threads = 0;
  KvFormat kv = KvFormat::f32;
  bool traces_routing = false;
  size_t n_pages = 0;      // of keys and values
  uint64_t bytes_own = 0;  // sum of the lines that are not mapped
  uint64_t bytes_mapped = 0;
  std::vector<std::string> choices;  // what was chosen automatically and why, one sentence each
  std::vector<std::string> warnings;
};

// What the plan needs to know of an opened model.
struct ModelFacts {
  ModelConfig config;
  uint64_t file_bytes = 0;       // of all files
  uint64_t table_bytes = 0;      // of the n-gram table, of which only some rows are read
  uint64_t bytes_per_token = 0;  // weights read for one generated token
  uint64_t float_bytes = 0;      // small tensors converted to float32 at load
};

// Scratch memory an implementation will reserve for shapes; a pure function of each back end.
using ScratchFn = std::function<size_t(const OpsShapes&)>;

// Threads that the plan will give the device: what scratch memory must be counted for. Without a wish, one for each
// core that may be used; hardware threads of one core would share its vector units.
int plan_threads(const Machine& machine, const EngineOptions& options);
OpsShapes ops_shapes(const ModelConfig& config, int max_rows, int max_context);

// Fails when the context cannot fit, with need, have and the largest context that would.
Result<Plan> make_plan(const Machine& machine, const ModelFacts& model, const EngineOptions& options,
                       const ScratchFn& scratch);

inline constexpr int kMarks = 4;  // checkpoints a sequence keeps for rewinding

}  // namespace strata
