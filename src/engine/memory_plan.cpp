#include "engine/memory_plan.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "layers/batch.h"
#include "state/kv_cache.h"
#include "state/running.h"
#include "state/sequence.h"

namespace strata {
namespace {

constexpr uint64_t kReserve = 512ull << 20;  // left to the rest of the system
constexpr int kDefaultChunk = 512;

double mib(uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

Result<KvFormat> kv_format(const EngineOptions& o, Plan& plan) {
  if (o.kv == "f32") return KvFormat::f32;
  if (o.kv == "f16") return KvFormat::f16;
  if (o.kv != "auto")
    return Status(Code::invalid_argument, fmt::format("keys and values in '{}'", o.kv), "choose auto, f32 or f16");
  const bool plain = o.device == "plain";
  plan.choices.push_back(plain ? "keys and values in f32: the plain implementation is the reference"
                               : "keys and values in f16: half the memory, no loss that shows");
  return plain ? KvFormat::f32 : KvFormat::f16;
}

// Whole cores of a limit on processor time. Rounded down: a thread over the limit is stopped in the middle of work that
// the others wait for.
int cores_of_limit(double cpu_quota) {
  return static_cast<int>(std::clamp(std::floor(cpu_quota), 1.0, 1e6));
}

int usable_cores(const Machine& machine) {
  const int cores = std::max(1, std::min(machine.physical_cores, machine.usable_cpus));
  return machine.cpu_quota > 0 ? std::min(cores, cores_of_limit(machine.cpu_quota)) : cores;
}

std::string counted(int n, const char* what) {
  return plural(static_cast<uint64_t>(std::max(n, 0)), what);
}

void tell_threads(const Machine& machine, const EngineOptions& options, Plan& plan) {
  if (options.device == "plain") return;
  std::string limit = "limit none";
  if (machine.cpu_quota > 0) limit = fmt::format("limit {:.3g} of processor time", machine.cpu_quota);
  std::string cores = counted(machine.physical_cores, "core");
  if (machine.usable_cpus > machine.physical_cores)
    cores += fmt::format(" with {}", counted(machine.usable_cpus, "hardware thread"));
  if (options.threads == 0) {
    plan.choices.push_back(fmt::format("{}: {}, {}", counted(plan.threads, "thread"), cores, limit));
    return;
  }
  const int most = machine.cpu_quota > 0 ? usable_cores(machine) : machine.usable_cpus;
  if (options.threads <= most) return;
  plan.warnings.push_back(
      fmt::format("--threads {} on {}, {}: threads that take turns wait for each other; --threads "
                  "{} is faster",
                  options.threads, cores, limit, usable_cores(machine)));
}

// Every line of memory for one context length; own memory is what the engine allocates.
void fill_lines(const ModelFacts& model, const ScratchFn& scratch, int context, Plan& plan) {
  const ModelConfig& c = model.config;
  const KvGeometry kv = kv_geometry(c, plan.kv);
  const RunningGeometry running = running_geometry(c);
  const SequenceLimits limits{context, plan.chunk_rows};
  plan.max_context = context;
  // Every mark may hold one page that its sequence has since rewritten.
  plan.n_pages = static_cast<size_t>((context + kPageTokens - 1) / kPageTokens) + kMarks + 1;
  plan.lines.clear();
  const auto add = [&](std::string what, uint64_t bytes, bool mapped, std::string why) {
    plan.lines.push_back({std::move(what), bytes, mapped, std::move(why)});
  };
  add("model file", model.file_bytes - model.table_bytes, true,
      "read where it lies; the system may drop and re-read pages");
  if (model.table_bytes > 0) {
    add("n-gram table", model.table_bytes, true, fmt::format("{} rows a token are read from it", c.ngram.heads()));
  }
  add("small tensors", model.float_bytes, false, "norms, gates and convolutions as float32");
  add("keys and values", plan.n_pages * kv.page_bytes, false,
      fmt::format("{} positions x {} layers in {}", context, kv.layers.size(),
                  plan.kv == KvFormat::f32 ? "f32" : "f16"));
  uint64_t rings = 0;
  for (const KvLayer& l : kv.layers)
    rings += sizeof(float) * static_cast<uint64_t>(ring_rows(limits)) * static_cast<uint64_t>(l.index_dim);
  add("recurrent state", running.total_bytes() + rings, false,
      fmt::format("{} delta-net layers, committed and pending", c.n_delta_net));
  add("tokens", sizeof(TokenRecord) * static_cast<uint64_t>(context), false,
      "what was read and said, with its positions");
  add("checkpoints", kMarks * static_cast<uint64_t>(running.snapshot_bytes()), false,
      fmt::format("up to {} moments to go back to", kMarks));
  add("activations", Activations::bytes(c, plan.chunk_rows, context), false,
      fmt::format("{} rows in a step", plan.chunk_rows));
  if (plan.traces_routing) {
    uint64_t ids = 0;
    for (const BlockConfig& b : c.blocks) ids += static_cast<uint64_t>(b.n_experts_used);
    add("routing trace", sizeof(uint16_t) * ids * static_cast<uint64_t>(context), false,
        fmt::format("{} experts of every token", ids));
  }
  add("scratch", scratch(ops_shapes(c, plan.chunk_rows, context)), false, "working memory of the operations");
  plan.bytes_own = plan.bytes_mapped = 0;
  for (const PlanLine& l : plan.lines) (l.mapped ? plan.bytes_mapped : plan.bytes_own) += l.bytes;
}

// The largest context, in whole pages, whose own memory fits; 0 when none does.
int largest_context(const ModelFacts& model, const ScratchFn& scratch, uint64_t have, int most, const Plan& plan) {
  int low = 0, high = (most + kPageTokens - 1) / kPageTokens;
  while (low < high) {
    const int mid = (low + high + 1) / 2;
    Plan trial = plan;
    fill_lines(model, scratch, std::min(most, mid * kPageTokens), trial);
    trial.bytes_own <= have ? low = mid : high = mid - 1;
  }
  return std::min(most, low * kPageTokens);
}

}  // namespace

OpsShapes ops_shapes(const ModelConfig& c, int max_rows, int max_context) {
  OpsShapes s;
  s.max_rows = max_rows;
  s.d_model = c.d_model, s.streams = c.streams, s.hyper_rank = c.hyper_rank;
  s.max_gdn_channels = c.gdn_channels();
  s.max_heads = c.heads, s.max_head_dim = c.head_dim;
  s.ngram_width = c.has_ngrams ? c.ngram.heads() * c.ngram.row_width : 0;
  s.max_context = max_context;
  s.max_index_heads = c.index_heads, s.max_index_dim = c.index_dim, s.block_tokens = c.block_tokens;
  s.max_linear_inputs =
      std::max({c.wide(), c.gdn_v_heads * c.gdn_v_dim, c.heads * c.head_dim, s.ngram_width, 2 * c.d_model});
  const auto widen = [&](const BlockConfig& b) {
    s.max_experts = std::max(s.max_experts, b.n_experts);
    s.max_experts_used = std::max(s.max_experts_used, b.n_experts_used);
    s.max_expert_width = std::max({s.max_expert_width, b.expert_width, b.shared_width});
  };
  for (const BlockConfig& b : c.blocks) widen(b);
  if (c.has_draft_head) widen(c.draft);
  return s;
}

int plan_threads(const Machine& machine, const EngineOptions& options) {
  if (options.device == "plain") return 1;
  if (options.threads > 0) return options.threads;
  return usable_cores(machine);
}

Result<Plan> make_plan(const Machine& machine, const ModelFacts& model, const EngineOptions& options,
                       const ScratchFn& scratch) {
  Plan plan;
  const int trained = model.config.context_length;
  if (options.max_context > trained) {
    return Status(Code::out_of_range,
                  fmt::format("--max-context {}: the model was made for {} tokens", options.max_context, trained),
                  fmt::format("choose {} or less", trained));
  }
  ASSIGN_OR_RETURN(plan.kv, kv_format(options, plan));
  plan.threads = plan_threads(machine, options);
  tell_threads(machine, options, plan);
  plan.traces_routing = !options.trace_routing.empty();
  plan.chunk_rows = options.chunk_rows > 0 ? options.chunk_rows : kDefaultChunk;

  const uint64_t available = machine.ram_available > 0 ? machine.ram_available : UINT64_MAX;
  const uint64_t have = available > kReserve ? available - kReserve : 0;
  const int wish = options.max_context > 0 ? options.max_context : trained;
  // Never below a window: rows of generated text that are read again come that many at a time.
  plan.chunk_rows = std::max(std::min(plan.chunk_rows, wish), kMaxWindow);
  fill_lines(model, scratch, wish, plan);
  if (plan.bytes_own > have) {
    const uint64_t need = plan.bytes_own;
    const int fits = largest_context(model, scratch, have, wish, plan);
    if (options.max_context > 0 || fits < kPageTokens) {
      return Status(
          Code::out_of_memory,
          fmt::format("a context of {} tokens needs {:.0f} MiB, {:.0f} MiB can be used", wish, mib(need), mib(have)),
          fits >= kPageTokens         ? fmt::format("--max-context {} fits", fits)
          : machine.ram_limit.empty() ? "close other programs"
                                      : "raise the memory limit that this process runs under");
    }
    fill_lines(model, scratch, fits, plan);
    plan.choices.push_back(
        fmt::format("a context of {} tokens instead of {}: that is what fits in {:.0f} MiB", fits, wish, mib(have)));
  }
  const uint64_t weights = model.file_bytes - model.table_bytes;
  if (machine.ram_total > 0 && plan.bytes_own + weights > available) {
    plan.warnings.push_back(
        fmt::format("the weights take {:.1f} GB and {:.1f} GB of memory is free: some will be read from disk again "
                    "and again, which is slow",
                    static_cast<double>(weights) * 1e-9, static_cast<double>(available) * 1e-9));
  }
  return plan;
}

}  // namespace strata
