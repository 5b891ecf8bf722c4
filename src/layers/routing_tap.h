// Where the choice of experts can be watched or replaced: asked once for every step, then in every layer of the trunk.
// A batch without a tap pays nothing for it.
#pragma once

#include <span>

#include "base/ids.h"
#include "base/result.h"
#include "ops/ops.h"

namespace strata {

class RoutingTap {
 public:
  virtual ~RoutingTap() = default;
  // Whether a step may compute positions up to, and not with, `end`.
  virtual Status admit(Pos end) const = 0;
  // Before the router: true when the tap has written the ids of all rows, by position; only their weights are computed.
  virtual bool choose(LayerId layer, std::span<const Segment> segments, const Routed& routed) = 0;
  // After it: the experts that each row will use. A position may come again; the last time counts.
  virtual void see(LayerId layer, std::span<const Segment> segments, const Routed& routed) = 0;
};

}  // namespace strata
