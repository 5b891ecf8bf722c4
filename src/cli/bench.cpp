// strata bench: speed without a model. One function for each thing that can be measured.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "base/units.h"
#include "cli/bench_text.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "os/console.h"
#include "os/machine.h"

namespace strata {
namespace {

constexpr double kQuietDrift = 0.1;
constexpr double kOwnCores = 0.6;  // what is left of a core's speed where all cores are at work, at the least

Result<DType> format_named(const std::string& name) {
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  if (const TypeTraits* type = find_type(upper); type != nullptr) return type->type;
  std::vector<std::string> names;
  for (const TypeTraits& t : all_types()) names.emplace_back(t.name);
  const std::string near = nearest_name(upper, names);
  return Status(
      Code::invalid_argument, fmt::format("option --format: there is no format '{}'", one_line(name, 60)),
      near.empty() ? fmt::format("choose one of {}", fmt::join(names, ", ")) : fmt::format("did you mean {}?", near));
}

void tell_noise(const BenchReport& report, Log& log) {
  if (report.drift() > kQuietDrift) {
    log.warning(fmt::format("the machine was not quiet: its limits changed by {:.0f}% while they were measured",
                            100 * report.drift()));
  }
  if (report.scaling() < kOwnCores) {
    log.warning(fmt::format("{} multiplied {:.1f} times as fast as one: they did not have a core each",
                            plural(static_cast<uint64_t>(report.threads), "thread"),
                            report.scaling() * report.threads));
  }
}

Status kernels_bench(CommandContext& context) {
  const Options& options = context.options;
  Log& log = context.log;
  RETURN_IF_ERROR(not_both(options, "json", "markdown"));
  BenchSettings settings;
  settings.isa = options.text("isa");
  settings.cell_s = static_cast<double>(options.integer("cell-time")) * 1e-3;
  if (options.given("threads")) settings.threads = static_cast<int>(options.integer("threads"));
  if (options.given("format")) {
    ASSIGN_OR_RETURN(settings.format, format_named(options.text("format")));
  }
  catch_interrupts();
  double start_s = log.now_s();
  const Result<BenchReport> report = bench_kernels(settings, read_machine(), [&](const BenchProgress& p) {
    if (p.done == 0) start_s = log.now_s();
    log.progress({"measuring " + p.what, static_cast<uint64_t>(p.done), static_cast<uint64_t>(p.total), "",
                  log.now_s() - start_s, ""});
    return interrupted() ? Status(Code::cancelled, "interrupted") : Status();
  });
  log.end_progress();
  RETURN_IF_ERROR(report.status());
  tell_noise(*report, log);
  if (options.flag("json")) return write_stream(Stream::out, dump_python_style(bench_json(*report)) + "\n");
  return write_stream(Stream::out, options.flag("markdown") ? bench_markdown(*report) : bench_table(*report));
}

struct Bench {
  const char* name;
  const char* help;
  Status (*run)(CommandContext& context);
};
constexpr Bench kBenches[] = {
    {"kernels", "weight formats and other kernels of the processor, beside what the machine can do", kernels_bench},
};

}  // namespace

Status bench_command(CommandContext& context) {
  const std::vector<std::string>& arguments = context.options.arguments();
  if (arguments.empty()) {
    std::string list;
    for (const Bench& bench : kBenches) list += fmt::format("strata bench {}  {}\n", bench.name, bench.help);
    return write_stream(Stream::out, list);
  }
  std::vector<std::string> names;
  for (const Bench& bench : kBenches) {
    if (arguments.front() == bench.name) return bench.run(context);
    names.emplace_back(bench.name);
  }
  return {Code::invalid_argument, fmt::format("there is no bench '{}'", one_line(arguments.front(), 60)),
          fmt::format("choose one of: {}", fmt::join(names, ", "))};
}

}  // namespace strata
