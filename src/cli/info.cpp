// strata info: what a file holds, what a run would cost on this machine, and, for a part of a model, why it cannot run.
#include <fmt/format.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/units.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/plan_text.h"
#include "engine/engine.h"
#include "os/console.h"

namespace strata {
namespace {

constexpr size_t kValueChars = 80;      // of a key's value in the table
constexpr uint64_t kListedValues = 64;  // longer arrays are counted in JSON, not listed

struct TypeSum {
  uint64_t tensors = 0, bytes = 0, values = 0;
};

std::map<std::string, TypeSum> sums_by_type(const Gguf& file) {
  std::map<std::string, TypeSum> sums;
  for (const GgufTensor& t : file.tensors()) {
    TypeSum& sum = sums[type_name(t.type)];
    sum.tensors += 1;
    sum.bytes += t.bytes;
    sum.values += static_cast<uint64_t>(t.shape.elems());
  }
  return sums;
}

uint64_t total_values(const Gguf& file) {
  uint64_t n = 0;
  for (const GgufTensor& t : file.tensors()) n += static_cast<uint64_t>(t.shape.elems());
  return n;
}

// What the file is, from the keys that say so.
std::string headline(const Gguf& file) {
  std::string out = file.file_name();
  const Result<std::string_view> architecture = file.get_string("general.architecture");
  const Result<std::string_view> name = file.get_string("general.name");
  if (name.ok()) out += fmt::format(", \"{}\"", *name);
  out += architecture.ok() ? fmt::format(", architecture {}", *architecture) : ", no architecture";
  out += fmt::format(", {} in {}, {} values in {}", format_bytes(file.file_bytes()),
                     plural(static_cast<uint64_t>(file.n_shards()), "file"), format_count(total_values(file)),
                     plural(file.tensors().size(), "tensor"));
  return one_line(out, std::numeric_limits<size_t>::max()) + "\n";
}

std::string keys_text(const Gguf& file) {
  size_t width = 0;
  for (const std::string_view key : file.keys()) width = std::max(width, std::min<size_t>(key.size(), 50));
  std::string out = fmt::format("\n{}\n", plural(file.keys().size(), "key"));
  for (const std::string_view key : file.keys()) {
    const std::string value = file.value_text(*file.find(key), kValueChars);
    out += fmt::format("  {:<{}}  {}\n", one_line(std::string(key), 100), width, one_line(value, kValueChars + 20));
  }
  return out;
}

std::string tensors_text(const Gguf& file) {
  size_t width = 0;
  for (const GgufTensor& t : file.tensors()) width = std::max(width, std::min<size_t>(t.name.size(), 50));
  std::string out = fmt::format("\n{}\n", plural(file.tensors().size(), "tensor"));
  for (const GgufTensor& t : file.tensors()) {
    out += fmt::format("  {:<{}}  {:<8} {:>10}  {}\n", one_line(std::string(t.name), 100), width, type_name(t.type),
                       format_bytes(t.bytes), t.shape.text());
  }
  out += "\nby type\n";
  for (const auto& [name, sum] : sums_by_type(file)) {
    out += fmt::format("  {:<8} {:>10}  {:>6} tensors  {:>14} values\n", name, format_bytes(sum.bytes), sum.tensors,
                       format_count(sum.values));
  }
  return out;
}

// Why a file without the weights of a whole model cannot run, in the words of what it seems to be; "" for others.
std::string part_name(const Gguf& file) {
  if (file.tensors().empty())
    return file.find("tokenizer.ggml.tokens") != nullptr ? "a tokenizer without weights" : "keys without weights";
  if (file.find_tensor("token_embd.weight") != nullptr) return "";
  if (file.tensors().size() == 1 && file.find_tensor("per_layer_token_embd.weight") != nullptr)
    return "the n-gram table of a model, without the rest";
  const Result<std::string_view> architecture = file.get_string("general.architecture");
  if (!architecture.ok()) return "";
  const std::string draft_key = std::string(*architecture) + ".nextn_predict_layers";
  return file.find(draft_key) != nullptr ? "the draft head of a model, for --mtp, without the model itself" : "";
}

std::string why_not(const Gguf& file, const Status& status) {
  const std::string part = part_name(file);
  return part.empty() ? status.text() : fmt::format("it is {} ({})", part, status.text());
}

std::string costs_text(const Gguf& file, const Result<Inspection>& inspection, const Machine& machine) {
  if (!inspection.ok()) return fmt::format("\ncannot run alone: {}\n", why_not(file, inspection.status()));
  const ModelFacts& facts = inspection->facts;
  std::string out = fmt::format("\n{} read for one token, of {} of weights\n", format_bytes(facts.bytes_per_token),
                                format_bytes(facts.file_bytes - facts.table_bytes));
  for (const std::string& note : inspection->notes) out += "note: " + note + "\n";
  if (!inspection->plan.ok())
    return out + fmt::format("cannot run on this machine: {}\n", inspection->plan.status().text());
  const Plan& plan = *inspection->plan;
  out += fmt::format("\nmemory for a context of {} on this machine ({} free of {})\n",
                     plural(static_cast<uint64_t>(plan.max_context), "token"), format_bytes(machine.ram_available),
                     format_bytes(machine.ram_total));
  out += plan_table(plan);
  for (const std::string& choice : plan.choices) out += "chosen: " + choice + "\n";
  for (const std::string& warning : plan.warnings) out += "warning: " + warning + "\n";
  return out;
}

template <class T>
Json list_json(const Result<std::vector<T>>& list) {
  Json out = Json::array();
  if (!list.ok()) return nullptr;
  for (const T& item : *list) out.push_back(item);
  return out;
}

Json value_json(const Gguf& file, std::string_view key, const GgufValue& value) {
  const bool real = value.type == GgufType::f32 || value.type == GgufType::f64;
  if (value.is_array) {
    if (value.count <= kListedValues && value.type == GgufType::string) return list_json(file.get_string_array(key));
    if (value.count <= kListedValues && value.type == GgufType::u64) return list_json(file.get_u64_array(key));
    if (value.count <= kListedValues && !real) return list_json(file.get_int_array(key));
    return {{"array_of", gguf_type_name(value.type)}, {"count", value.count}};
  }
  if (value.type == GgufType::string) return *file.get_string(key);
  if (value.type == GgufType::boolean) return *file.get_bool(key);
  if (real) {  // what is not finite has no number in JSON
    const Result<double> n = file.get_number(key);
    return n.ok() ? Json(*n) : Json(file.value_text(value, kValueChars));
  }
  if (const Result<uint64_t> n = file.get_u64(key); n.ok()) return *n;
  return *file.get_int(key, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
}

std::string as_json(const Gguf& file, const Result<Inspection>& inspection) {
  Json out;
  out["file"] = file.file_name();
  out["files"] = file.n_shards();
  out["bytes"] = file.file_bytes();
  out["values"] = total_values(file);
  Json::object_t keys;  // filled from behind: no two keys are the same, and looking each one up takes its time
  for (const std::string_view key : file.keys())
    keys.emplace_back(std::string(key), value_json(file, key, *file.find(key)));
  out["keys"] = std::move(keys);
  out["tensors"] = Json::array();
  for (const GgufTensor& t : file.tensors()) {
    Json shape = Json::array();
    for (int i = 0; i < t.shape.n_dims; ++i) shape.push_back(t.shape.ne[static_cast<size_t>(i)]);
    out["tensors"].push_back({{"name", t.name}, {"type", type_name(t.type)}, {"shape", shape}, {"bytes", t.bytes}});
  }
  out["types"] = Json::object();
  for (const auto& [name, sum] : sums_by_type(file))
    out["types"][name] = {{"tensors", sum.tensors}, {"bytes", sum.bytes}, {"values", sum.values}};
  out["runnable"] = inspection.ok();
  if (!inspection.ok()) {
    out["why_not"] = why_not(file, inspection.status());
    return dump_python_style(out) + "\n";
  }
  out["bytes_per_token"] = inspection->facts.bytes_per_token;
  out["table_bytes"] = inspection->facts.table_bytes;
  out["notes"] = inspection->notes;
  if (inspection->plan.ok())
    out["plan"] = plan_json(*inspection->plan);
  else
    out["why_no_plan"] = inspection->plan.status().text();
  return dump_python_style(out) + "\n";
}

}  // namespace

Status info_command(CommandContext& context) {
  const Options& options = context.options;
  ASSIGN_OR_RETURN(const std::string path, model_path(options.arguments().empty() ? "" : options.arguments().front()));
  ASSIGN_OR_RETURN(const Gguf file, open_model_file(path));
  EngineOptions engine_settings = engine_options(options, path);
  engine_settings.mtp_path = options.text("mtp");
  if (options.given("max-context")) engine_settings.max_context = static_cast<int>(options.integer("max-context"));
  const Machine machine = read_machine();
  const Result<Inspection> inspection = inspect_model(engine_settings, machine);
  if (!engine_settings.mtp_path.empty() && !inspection.ok()) return inspection.status();
  const Status plan = inspection.ok() ? inspection->plan.status() : Status();
  if (exit_code_of(plan.code()) == ExitCode::usage) return plan;
  if (options.flag("json")) return write_stream(Stream::out, as_json(file, inspection));
  return write_stream(Stream::out,
                      headline(file) + keys_text(file) + tensors_text(file) + costs_text(file, inspection, machine));
}

}  // namespace strata
