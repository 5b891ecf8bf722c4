// The two taps on the choice of experts: one writes down what the router chooses, the other replays such a trace.
// Both go by the position of a row in its sequence, so a position that is computed again, after drafts that were not
// kept or a rewind, has one entry.
#pragma once

#include <memory>
#include <string>

#include "experts/routing_trace.h"
#include "layers/routing_tap.h"
#include "os/file.h"

namespace strata {

class RoutingRecorder final : public RoutingTap {
 public:
  // Room for max_context positions. Fails early when `path` cannot be written.
  static Result<std::unique_ptr<RoutingRecorder>> create(Memory& memory, const RoutingGeometry& geometry,
                                                         Pos max_context, const std::string& path);

  Status admit(Pos) const override { return {}; }
  bool choose(LayerId, std::span<const Segment>, const Routed&) override { return false; }
  void see(LayerId layer, std::span<const Segment> segments, const Routed& routed) override;

  // The first `positions` as a trace; the file is there whole or as it was before.
  Status save(Pos positions) const;

 private:
  RoutingRecorder(const RoutingGeometry& geometry, std::string path);

  RoutingGeometry geometry_;
  std::vector<size_t> offsets_;
  size_t position_bytes_;
  std::string path_;
  Buffer ids_;
};

class RoutingReplay final : public RoutingTap {
 public:
  // Fails on a file that is no trace, or of other layers than `geometry`.
  static Result<std::unique_ptr<RoutingReplay>> open(const std::string& path, const RoutingGeometry& geometry);

  Pos positions() const;
  Status admit(Pos end) const override;
  bool choose(LayerId layer, std::span<const Segment> segments, const Routed& routed) override;
  void see(LayerId, std::span<const Segment>, const Routed&) override {}

 private:
  RoutingReplay(std::unique_ptr<MappedFile> file, RoutingTrace trace)
      : file_(std::move(file)), trace_(std::move(trace)) {}

  std::unique_ptr<MappedFile> file_;
  RoutingTrace trace_;
};

}  // namespace strata
