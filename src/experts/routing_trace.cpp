#include "experts/routing_trace.h"

#include <algorithm>
#include <cstring>

#include "base/units.h"

namespace strata {
namespace {

constexpr char kMagic[8] = {'S', 'T', 'R', 'R', 'T', 'R', '0', '1'};
constexpr size_t kFixedBytes = sizeof kMagic + 8 + 4 + 4;  // magic, tokens, layers, reserved
constexpr const char* kRecordHint = "record one with strata run --trace-routing FILE";

template <class T>
T read_at(std::span<const std::byte> bytes, size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <class T>
void append(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

Status corrupt(const std::string& name, const std::string& what) {
  return {Code::corrupt, fmt::format("{}: {}", name, what), kRecordHint};
}

// The layers that a header lists; the file is known to hold that many entries.
Result<RoutingGeometry> read_layers(std::span<const std::byte> bytes, uint32_t n_layers, const std::string& name) {
  RoutingGeometry g;
  g.layers.reserve(n_layers);
  for (uint32_t i = 0; i < n_layers; ++i) {
    const size_t at = kFixedBytes + size_t{8} * i;
    const RoutingLayer l{read_at<uint32_t>(bytes, at), read_at<uint32_t>(bytes, at + 4)};
    if (l.n_used == 0 || l.n_used > l.n_experts || l.n_experts > kTraceExpertsMax) {
      return corrupt(name, fmt::format("layer {} of the routing trace uses {} of {} experts, at most {} of up to {} "
                                       "were expected",
                                       i, l.n_used, l.n_experts, l.n_experts, kTraceExpertsMax));
    }
    g.layers.push_back(l);
  }
  return g;
}

}  // namespace

Result<RoutingGeometry> RoutingGeometry::of(const ModelConfig& config) {
  RoutingGeometry g;
  for (const BlockConfig& b : config.blocks) {
    const RoutingLayer l{static_cast<uint32_t>(b.n_experts), static_cast<uint32_t>(b.n_experts_used)};
    if (l.n_experts > kTraceExpertsMax) {
      return Status(Code::unsupported,
                    fmt::format("layer {} has {} experts, a routing trace can number {}", g.layers.size(), l.n_experts,
                                kTraceExpertsMax),
                    "leave out --trace-routing and --replay-routing");
    }
    g.layers.push_back(l);
  }
  return g;
}

size_t RoutingGeometry::position_bytes() const {
  size_t bytes = 0;
  for (const RoutingLayer& l : layers) bytes += l.n_used * sizeof(uint16_t);
  return bytes;
}

std::vector<size_t> RoutingGeometry::layer_offsets() const {
  std::vector<size_t> offsets;
  size_t at = 0;
  for (const RoutingLayer& l : layers) {
    offsets.push_back(at);
    at += l.n_used * sizeof(uint16_t);
  }
  return offsets;
}

std::string RoutingGeometry::header(uint64_t positions) const {
  std::string out(kMagic, sizeof kMagic);
  append(out, positions);
  append(out, static_cast<uint32_t>(layers.size()));
  append(out, uint32_t{0});
  for (const RoutingLayer& l : layers) {
    append(out, l.n_experts);
    append(out, l.n_used);
  }
  return out;
}

Result<RoutingTrace> RoutingTrace::parse(std::span<const std::byte> bytes, const std::string& name) {
  const size_t compared = std::min(bytes.size(), sizeof kMagic);
  if (compared == 0 || std::memcmp(bytes.data(), kMagic, compared) != 0)
    return Status(Code::unsupported, fmt::format("{}: not a routing trace", name), kRecordHint);
  if (bytes.size() < kFixedBytes)
    return corrupt(name,
                   fmt::format("{} bytes, the header of a routing trace has at least {}", bytes.size(), kFixedBytes));
  const auto positions = read_at<uint64_t>(bytes, 8);
  const auto n_layers = read_at<uint32_t>(bytes, 16);
  if (const auto reserved = read_at<uint32_t>(bytes, 20); n_layers == 0 || reserved != 0) {
    return corrupt(name, fmt::format("a routing trace of {} layers with the reserved value {}, expected at least one "
                                     "layer and 0",
                                     n_layers, reserved));
  }
  if (n_layers > (bytes.size() - kFixedBytes) / 8)
    return corrupt(name, fmt::format("{} bytes cannot list the {} layers of its header", bytes.size(), n_layers));
  RoutingTrace t;
  ASSIGN_OR_RETURN(t.geometry_, read_layers(bytes, n_layers, name));
  t.offsets_ = t.geometry_.layer_offsets();
  t.position_bytes_ = t.geometry_.position_bytes();
  t.positions_ = positions;
  const size_t left = bytes.size() - t.geometry_.header_bytes();
  if (left % t.position_bytes_ != 0 || left / t.position_bytes_ != positions) {
    return corrupt(name, fmt::format("the ids of {} tokens take {} bytes each, and {} bytes of ids are there",
                                     positions, t.position_bytes_, left));
  }
  t.ids_ = bytes.data() + t.geometry_.header_bytes();
  RETURN_IF_ERROR(t.check_ids(name));
  return t;
}

Status RoutingTrace::check_ids(const std::string& name) const {
  std::vector<uint64_t> last_seen(kTraceExpertsMax, 0);  // number of the list that an expert was last in
  uint64_t list = 0;
  const std::byte* at = ids_;
  for (uint64_t p = 0; p < positions_; ++p) {
    for (size_t layer = 0; layer < geometry_.layers.size(); ++layer) {
      const RoutingLayer& l = geometry_.layers[layer];
      ++list;
      for (uint32_t i = 0; i < l.n_used; ++i, at += sizeof(uint16_t)) {
        uint16_t id = 0;
        std::memcpy(&id, at, sizeof id);
        if (id >= l.n_experts || last_seen[id] == list) {
          return corrupt(name, fmt::format("expert {} of token {} in layer {} {}", id, p, layer,
                                           id >= l.n_experts ? fmt::format("of {}", l.n_experts) : "is there twice"));
        }
        last_seen[id] = list;
      }
    }
  }
  return {};
}

void RoutingTrace::ids(uint64_t position, size_t layer, int32_t* to) const {
  CHECK(position < positions_ && layer < offsets_.size(), "token {} of {}, layer {}", position, positions_, layer);
  const std::byte* at = ids_ + position * position_bytes_ + offsets_[layer];
  for (uint32_t i = 0; i < geometry_.layers[layer].n_used; ++i) {
    uint16_t id = 0;
    std::memcpy(&id, at + i * sizeof id, sizeof id);
    to[i] = id;
  }
}

Status RoutingTrace::fits(const RoutingGeometry& model, const std::string& name) const {
  const char* hint = "record a trace with a model of this shape";
  if (geometry_.layers.size() != model.layers.size()) {
    return {Code::unsupported,
            fmt::format("{}: the routing trace has {}, the model {}", name, plural(geometry_.layers.size(), "layer"),
                        model.layers.size()),
            hint};
  }
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const RoutingLayer &trace = geometry_.layers[i], &own = model.layers[i];
    if (trace == own) continue;
    return {Code::unsupported,
            fmt::format("{}: layer {} of the routing trace uses {} of {} experts, the model's {} of {}", name, i,
                        trace.n_used, trace.n_experts, own.n_used, own.n_experts),
            hint};
  }
  return {};
}

}  // namespace strata
