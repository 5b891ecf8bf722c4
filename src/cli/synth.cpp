// strata synth: a model file of random weights, to measure with.
#include "model/synth.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/units.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "engine/engine.h"
#include "os/console.h"
#include "os/file.h"
#include "os/machine.h"

namespace strata {
namespace {

// The options are names for a few of the keys, and come before what is written as KEY=VALUE.
Result<SynthSpec> spec_of(const Options& options) {
  ASSIGN_OR_RETURN(SynthSpec spec, synth_preset(options.text("preset")));
  std::set<std::string> given;
  const auto set_once = [&](const std::string& setting) -> Status {
    const std::string key = setting.substr(0, setting.find('='));
    if (given.insert(key).second) return synth_set(spec, setting);
    return {Code::invalid_argument, fmt::format("{} is given twice", key),
            "give it once, as an option or as KEY=VALUE"};
  };
  for (const char* key : {"layers", "ngram-rows"}) {
    if (!options.given(key)) continue;
    const Status set = set_once(fmt::format("{}={}", key, options.text(key)));
    if (!set.ok()) return Status(set.code(), "option --" + set.message(), set.hint());
  }
  for (size_t i = 1; i < options.arguments().size(); ++i) RETURN_IF_ERROR(set_once(options.arguments()[i]));
  spec.mtp = options.flag("mtp");
  spec.split = options.flag("split");
  spec.seed = static_cast<uint64_t>(options.integer("seed"));
  spec.router_skew = options.number("router-skew");
  RETURN_IF_ERROR(check_synth(spec));
  return spec;
}

Status check_target(const SynthSpec& spec, const std::string& path, bool force) {
  for (const SynthKey& key : synth_keys(spec)) {
    if (!path.starts_with(key.name + "=")) continue;
    return {Code::invalid_argument, fmt::format("no file is named before {}", path),
            "write strata synth OUT.gguf KEY=VALUE ..."};
  }
  for (const std::string& file : synth_paths(spec, path)) {
    std::error_code ignored;
    if (force || !std::filesystem::exists(file, ignored)) continue;
    return {Code::invalid_argument, file + " exists already", "choose another name, or replace it with --force"};
  }
  return {};
}

std::string as_json(const SynthSpec& spec, const SynthFiles& files, uint64_t bytes_per_token, double elapsed_s) {
  Json out;
  out["files"] = files.paths;
  out["bytes"] = files.bytes;
  out["tensors"] = files.n_tensors;
  out["bytes_per_token"] = bytes_per_token;
  out["elapsed_s"] = elapsed_s;
  out["preset"] = spec.preset;
  out["seed"] = spec.seed;
  out["router_skew"] = spec.router_skew;
  out["keys"] = Json::object();
  for (const SynthKey& key : synth_keys(spec)) out["keys"][key.name] = key.value;
  return dump_python_style(out) + "\n";
}

}  // namespace

Status synth_command(CommandContext& context) {
  const Options& options = context.options;
  Log& log = context.log;
  const std::string& path = options.arguments().front();
  ASSIGN_OR_RETURN(const SynthSpec spec, spec_of(options));
  RETURN_IF_ERROR(check_target(spec, path, options.flag("force")));
  EngineOptions engine_settings;
  if (options.given("threads")) engine_settings.threads = static_cast<int>(options.integer("threads"));
  const Machine machine = read_machine();
  WorkerPool pool(plan_threads(machine, engine_settings));

  catch_interrupts();
  const double start_s = log.now_s();
  const Result<SynthFiles> files = write_synth(spec, path, pool, [&](uint64_t done, uint64_t total) {
    log.progress({"writing", done, total, "byte", log.now_s() - start_s, ""});
    return interrupted() ? Status(Code::cancelled, "interrupted") : Status();
  });
  log.end_progress();
  if (files.status().code() == Code::cancelled) return {Code::cancelled, "interrupted; nothing is left of the file"};
  RETURN_IF_ERROR(files.status());
  const double elapsed_s = log.now_s() - start_s;

  engine_settings.model_path = files->paths.front();
  ASSIGN_OR_RETURN(const Inspection inspection, inspect_model(engine_settings, machine));
  const uint64_t per_token = inspection.facts.bytes_per_token;
  if (options.flag("json")) return write_stream(Stream::out, as_json(spec, *files, per_token, elapsed_s));
  std::string names;
  for (const std::string& p : files->paths) names += (names.empty() ? "" : " and ") + file_name_of(p);
  const auto rate = static_cast<uint64_t>(static_cast<double>(files->bytes) / elapsed_s);
  return write_stream(Stream::out, fmt::format("{}: {} in {} ({}/s), {} of weights read for one token\n", names,
                                               format_bytes(files->bytes), format_duration(elapsed_s),
                                               format_bytes(rate), format_bytes(per_token)));
}

}  // namespace strata
