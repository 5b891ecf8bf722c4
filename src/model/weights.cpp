#include "model/weights.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "model/architecture.h"

namespace strata {
namespace {

Result<const Architecture*> architecture_of(const Gguf& file) {
  if (file.find("general.architecture") == nullptr) {
    return Status(
        Code::unsupported,
        fmt::format("{}: no architecture key (general.architecture), so it is no model by itself", file.file_name()),
        "if it is a part of a model, name the model's main file");
  }
  ASSIGN_OR_RETURN(const std::string_view name, file.get_string("general.architecture"));
  const Architecture* arch = find_architecture(name);
  if (arch == nullptr) {
    return Status(Code::unsupported, fmt::format("{}: architecture '{}' is not supported", file.file_name(), name),
                  "this build runs: " + architecture_names());
  }
  return arch;
}

void note_unused(const TensorBinder& binder, const Gguf& file, Model& model) {
  const auto unused = binder.unused();
  if (unused.empty()) return;
  model.notes.push_back(
      fmt::format("{}: {} tensors are not used, the first is {}", file.file_name(), unused.size(), unused.front()));
}

uint64_t weight_bytes(const Weight& w) {
  return w ? w.bytes() : 0;
}

uint64_t hyper_bytes(const HyperWeights& h) {
  return weight_bytes(h.down) + weight_bytes(h.up) + weight_bytes(h.inject) +
         sizeof(float) * static_cast<uint64_t>(h.streams) * static_cast<uint64_t>(h.d_model);
}

uint64_t block_bytes(const Block& b, const ModelConfig& c) {
  uint64_t n = hyper_bytes(b.attn_hyper) + hyper_bytes(b.ffn_hyper);
  for (const Weight* w :
       {&b.gdn.qkv, &b.gdn.gate, &b.gdn.beta, &b.gdn.alpha, &b.gdn.out, &b.attention.q, &b.attention.k, &b.attention.v,
        &b.attention.out, &b.attention.index_q, &b.attention.index_k, &b.ngram.key, &b.ngram.value, &b.router,
        &b.shared.gate, &b.shared.up, &b.shared.down, &b.shared_gate}) {
    n += weight_bytes(*w);
  }
  return n + static_cast<uint64_t>(b.config.n_experts_used) * b.experts.bytes_each(c.d_model, b.config.expert_width);
}

void hash_file(const Gguf& file, const std::string& prefix, Hash64& hash) {
  for (const std::string_view key : file.keys()) {
    if (!key.starts_with(prefix)) continue;
    const GgufValue& value = *file.find(key);
    hash.add(key.data(), key.size());
    hash.add(value.data, value.bytes);
  }
  for (const GgufTensor& t : file.tensors()) {
    hash.add(t.name.data(), t.name.size());
    hash.add(t.type);
    hash.add(t.shape.ne.data(), sizeof t.shape.ne);
    const size_t sample = std::min<size_t>(t.bytes, 64);
    hash.add(t.data, sample);
    hash.add(t.data + t.bytes - sample, sample);
  }
}

}  // namespace

Result<std::shared_ptr<Model>> bind_trunk(Gguf file, bool with_draft) {
  auto model = std::make_shared<Model>();
  model->file = std::make_shared<const Gguf>(std::move(file));
  ASSIGN_OR_RETURN(const Architecture* arch, architecture_of(*model->file));
  ASSIGN_OR_RETURN(model->config, arch->read_config(*model->file));
  TensorBinder binder(*model->file, model->small);
  arch->bind(binder, *model);
  if (with_draft && arch->has_draft(*model->file)) {
    RETURN_IF_ERROR(arch->read_draft_config(*model->file, model->config));
    arch->bind_draft(binder, *model, model->draft.emplace());
  }
  RETURN_IF_ERROR(binder.status());
  model->float_bytes += binder.float_bytes();
  note_unused(binder, *model->file, *model);
  return model;
}

Status bind_draft(Gguf file, Model& model) {
  model.draft_file = std::make_shared<const Gguf>(std::move(file));
  ASSIGN_OR_RETURN(const Architecture* arch, architecture_of(*model.draft_file));
  if (arch->name != model.config.architecture) {
    return {Code::invalid_argument, fmt::format("{}: a draft head for '{}'", model.draft_file->file_name(), arch->name),
            fmt::format("the model is '{}'", model.config.architecture)};
  }
  if (!arch->has_draft(*model.draft_file)) {
    return {Code::invalid_argument, fmt::format("{}: holds no draft head", model.draft_file->file_name()),
            "give --mtp the draft head that was published for this model"};
  }
  RETURN_IF_ERROR(arch->read_draft_config(*model.draft_file, model.config));
  TensorBinder binder(*model.draft_file, model.small);
  arch->bind_draft(binder, model, model.draft.emplace());
  RETURN_IF_ERROR(binder.status());
  model.float_bytes += binder.float_bytes();
  note_unused(binder, *model.draft_file, model);
  return {};
}

Result<std::shared_ptr<const Model>> load_model(const std::string& path, const std::string& draft_path) {
  ASSIGN_OR_RETURN(Gguf file, Gguf::open(path));
  ASSIGN_OR_RETURN(std::shared_ptr<Model> model, bind_trunk(std::move(file), draft_path.empty()));
  if (!draft_path.empty()) {
    ASSIGN_OR_RETURN(Gguf draft, Gguf::open(draft_path));
    RETURN_IF_ERROR(bind_draft(std::move(draft), *model));
  }
  return std::shared_ptr<const Model>(std::move(model));
}

uint64_t bytes_per_token(const Model& model) {
  const ModelConfig& c = model.config;
  uint64_t n = hyper_bytes(model.output_hyper) + weight_bytes(model.head) + row_bytes(model.embed.type, c.d_model);
  if (c.has_ngrams) n += static_cast<uint64_t>(c.ngram.heads()) * row_bytes(model.ngram_table.type, c.ngram.row_width);
  for (const Block& b : model.blocks) n += block_bytes(b, c);
  return n;
}

uint64_t fingerprint(const Model& model) {
  Hash64 hash;
  const std::string prefix = model.config.architecture + ".";
  hash_file(*model.file, prefix, hash);
  if (model.draft_file) hash_file(*model.draft_file, prefix, hash);
  return hash.value();
}

}  // namespace strata
