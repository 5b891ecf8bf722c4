#include "cli/plan_text.h"

#include <fmt/format.h>

#include "base/units.h"

namespace strata {

std::string plan_table(const Plan& plan) {
  std::string out;
  for (const PlanLine& line : plan.lines) {
    out += fmt::format("  {:<18} {:>10}  {}{}\n", line.what, format_bytes(line.bytes),
                       line.mapped ? "in the file: " : "", line.why);
  }
  out += fmt::format("  {:<18} {:>10}  beside {} of the file that the system keeps in memory as far as there is room\n",
                     "to be reserved", format_bytes(plan.bytes_own), format_bytes(plan.bytes_mapped));
  return out;
}

Json plan_json(const Plan& plan) {
  Json out;
  out["max_context"] = plan.max_context;
  out["chunk_rows"] = plan.chunk_rows;
  out["threads"] = plan.threads;
  out["kv"] = plan.kv == KvFormat::f32 ? "f32" : "f16";
  out["bytes_own"] = plan.bytes_own;
  out["bytes_mapped"] = plan.bytes_mapped;
  out["lines"] = Json::array();
  for (const PlanLine& line : plan.lines) {
    out["lines"].push_back({{"what", line.what}, {"bytes", line.bytes}, {"mapped", line.mapped}, {"why", line.why}});
  }
  out["choices"] = plan.choices;
  out["warnings"] = plan.warnings;
  return out;
}

void log_plan(const Plan& plan, const std::string& model, const char* device, Log& log) {
  log.info(fmt::format("{} on {}, context of {}, {} of memory beside the file's {}", model, device,
                       plural(static_cast<uint64_t>(plan.max_context), "token"), format_bytes(plan.bytes_own),
                       format_bytes(plan.bytes_mapped)));
  for (const std::string& choice : plan.choices) log.info("chosen: " + choice);
  for (const std::string& warning : plan.warnings) log.warning(warning);
}

}  // namespace strata
