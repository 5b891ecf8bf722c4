#include "experts/store.h"

namespace strata {
namespace {

std::vector<ExpertRef> file_table(const Block& block) {
  const ExpertTensors& e = block.experts;
  const auto scale = [](const ExpertTensors::Part& part, size_t i) { return part.scales ? part.scales[i] : 1.0f; };
  std::vector<ExpertRef> table;
  for (size_t i = 0; i < static_cast<size_t>(block.config.n_experts); ++i) {
    table.push_back({e.gate.data + i * e.gate.stride, e.up.data + i * e.up.stride, e.down.data + i * e.down.stride,
                     scale(e.gate, i), scale(e.up, i), scale(e.down, i)});
  }
  return table;
}

}  // namespace

Store::Store(std::shared_ptr<const Model> model) : model_(std::move(model)) {
  for (int i = 0; i < model_->n_expert_layers(); ++i) {
    const Block& block = model_->block(LayerId(i));
    tables_.push_back(file_table(block));
    layers_.push_back({tables_.back().data(), block.config.n_experts, block.config.n_experts_used,
                       model_->config.d_model, block.config.expert_width, block.experts.gate.type,
                       block.experts.up.type, block.experts.down.type, block.shared, block.shared_gate});
  }
}

ExpertRef Store::find(LayerId layer, ExpertId expert) const {
  const auto& table = tables_[static_cast<size_t>(layer.v)];
  CHECK(expert.v >= 0 && static_cast<size_t>(expert.v) < table.size(), "expert {} of {}", expert.v, table.size());
  return table[static_cast<size_t>(expert.v)];
}

}  // namespace strata
