// The registry of model architectures: which file describes which `general.architecture`.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "model/config.h"
#include "model/tensor_binder.h"
#include "model/weights.h"
#include "tensor/gguf.h"

namespace strata {

// What one architecture's file must answer; the rest of the house never asks for its name.
struct Architecture {
  std::string_view name;
  Result<ModelConfig> (*read_config)(const Gguf& file);
  void (*bind)(TensorBinder& binder, Model& model);
  // Whether `file` holds a draft head for a trunk of this geometry (it may be the trunk's own file).
  bool (*has_draft)(const Gguf& file);
  // The draft head of `file`, whose geometry must match the trunk already in model.config.
  Status (*read_draft_config)(const Gguf& file, ModelConfig& config);
  void (*bind_draft)(TensorBinder& binder, Model& model, DraftHead& draft);
};

const Architecture* find_architecture(std::string_view name);
std::string architecture_names();  // for messages

extern const Architecture kQwen4Exp;

}  // namespace strata
