// Routing traces: which experts every token of a run was sent to, layer by layer. A trace knows the geometry of the
// layers and nothing else of the model, so one can be recorded, made by a program, and replayed on any weights of that
// shape. Layout: docs/routing-traces.md. Files are hostile until every byte is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/config.h"

namespace strata {

struct RoutingLayer {
  uint32_t n_experts = 0, n_used = 0;
  bool operator==(const RoutingLayer&) const = default;
};

// The trunk's layers in order; the draft head's block is not part of a trace.
struct RoutingGeometry {
  std::vector<RoutingLayer> layers;

  // Fails where a layer has more experts than a trace can number.
  static Result<RoutingGeometry> of(const ModelConfig& config);
  bool operator==(const RoutingGeometry&) const = default;
  size_t header_bytes() const { return 24 + 8 * layers.size(); }
  size_t position_bytes() const;                 // ids of one token
  std::vector<size_t> layer_offsets() const;     // bytes into a token's ids
  std::string header(uint64_t positions) const;  // what a file begins with; the ids follow
};

inline constexpr uint32_t kTraceExpertsMax = 65536;  // of one layer; ids are 16 bits

// A checked view of a trace's bytes, which must outlive it.
class RoutingTrace {
 public:
  // name: of the file, for messages. On success every id is an expert of its layer and no layer names one twice for a
  // token.
  static Result<RoutingTrace> parse(std::span<const std::byte> bytes, const std::string& name);

  const RoutingGeometry& geometry() const { return geometry_; }
  uint64_t positions() const { return positions_; }
  // The ids [n_used] of one token in one layer, by rank.
  void ids(uint64_t position, size_t layer, int32_t* to) const;
  // Fails with the first difference when the model's layers are not those of the trace.
  Status fits(const RoutingGeometry& model, const std::string& name) const;

 private:
  Status check_ids(const std::string& name) const;

  RoutingGeometry geometry_;
  std::vector<size_t> offsets_;  // of layers, in a token's ids
  size_t position_bytes_ = 0;
  uint64_t positions_ = 0;
  const std::byte* ids_ = nullptr;
};

}  // namespace strata
