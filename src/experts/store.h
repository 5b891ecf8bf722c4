// The one door to expert weights: where each expert of each layer is now. Layers are the trunk's blocks, then the draft
// block. Tables change only between steps, so a running step sees one placement.
#pragma once

#include <memory>
#include <vector>

#include "base/ids.h"
#include "model/weights.h"
#include "ops/weights.h"

namespace strata {

// Routed experts served from each tier since start; they add up to all routed experts.
struct TierCounts {
  uint64_t mapped = 0;  // host memory, pages of the model file
};

class Store {
 public:
  // Every expert starts where the file map has it.
  explicit Store(std::shared_ptr<const Model> model);

  ExpertRef find(LayerId layer, ExpertId expert) const;
  const ExpertLayer& layer(LayerId layer) const { return layers_[static_cast<size_t>(layer.v)]; }
  void count(int routed) { counts_.mapped += static_cast<uint64_t>(routed); }
  const TierCounts& counts() const { return counts_; }

 private:
  std::shared_ptr<const Model> model_;
  std::vector<std::vector<ExpertRef>> tables_;  // [layer][expert]
  std::vector<ExpertLayer> layers_;
  TierCounts counts_;
};

}  // namespace strata
