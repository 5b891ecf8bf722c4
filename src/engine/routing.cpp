#include "engine/routing.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace strata {
namespace {

// fn(row, position) for every row of a step.
template <class Fn>
void each_row(std::span<const Segment> segments, Fn&& fn) {
  CHECK(segments.size() == 1, "{} sequences in a step, a routing trace follows one", segments.size());
  const Segment& s = segments.front();
  for (int i = 0; i < s.n_rows; ++i) fn(s.first_row + i, s.first_pos + i);
}

int32_t* ids_of(const Routed& routed, int row) {
  return routed.ids + static_cast<int64_t>(row) * routed.n_used;
}

void check_layer(const RoutingGeometry& geometry, LayerId layer, const Routed& routed) {
  const auto i = static_cast<size_t>(layer.v);
  CHECK(i < geometry.layers.size() && static_cast<int>(geometry.layers[i].n_used) == routed.n_used,
        "layer {} of {} uses {} experts", layer.v, geometry.layers.size(), routed.n_used);
}

}  // namespace

RoutingRecorder::RoutingRecorder(const RoutingGeometry& geometry, std::string path)
    : geometry_(geometry),
      offsets_(geometry.layer_offsets()),
      position_bytes_(geometry.position_bytes()),
      path_(std::move(path)) {}

Result<std::unique_ptr<RoutingRecorder>> RoutingRecorder::create(Memory& memory, const RoutingGeometry& geometry,
                                                                 Pos max_context, const std::string& path) {
  RETURN_IF_ERROR(FileWriter::create(path).status());
  std::unique_ptr<RoutingRecorder> r(new RoutingRecorder(geometry, path));
  ASSIGN_OR_RETURN(r->ids_,
                   memory.allocate(static_cast<size_t>(max_context) * r->position_bytes_, "the routing trace"));
  return r;
}

void RoutingRecorder::see(LayerId layer, std::span<const Segment> segments, const Routed& routed) {
  check_layer(geometry_, layer, routed);
  each_row(segments, [&](int row, Pos position) {
    const size_t at = static_cast<size_t>(position) * position_bytes_ + offsets_[static_cast<size_t>(layer.v)];
    const int32_t* ids = ids_of(routed, row);
    CHECK(at + static_cast<size_t>(routed.n_used) * 2 <= ids_.bytes(), "position {} is beyond the context", position);
    for (int i = 0; i < routed.n_used; ++i) {
      const auto id = static_cast<uint16_t>(ids[i]);
      std::memcpy(ids_.data() + at + static_cast<size_t>(i) * sizeof id, &id, sizeof id);
    }
  });
}

Status RoutingRecorder::save(Pos positions) const {
  ASSIGN_OR_RETURN(const auto file, FileWriter::create(path_));
  RETURN_IF_ERROR(file->append(geometry_.header(static_cast<uint64_t>(positions))));
  RETURN_IF_ERROR(file->append({ids_.data(), static_cast<size_t>(positions) * position_bytes_}));
  return file->commit();
}

Result<std::unique_ptr<RoutingReplay>> RoutingReplay::open(const std::string& path, const RoutingGeometry& geometry) {
  ASSIGN_OR_RETURN(auto file, MappedFile::open(path));
  ASSIGN_OR_RETURN(RoutingTrace trace, RoutingTrace::parse(file->bytes(), path));
  RETURN_IF_ERROR(trace.fits(geometry, path));
  return std::unique_ptr<RoutingReplay>(new RoutingReplay(std::move(file), std::move(trace)));
}

Pos RoutingReplay::positions() const {
  return static_cast<Pos>(std::min<uint64_t>(trace_.positions(), std::numeric_limits<Pos>::max()));
}

Status RoutingReplay::admit(Pos end) const {
  RETURN_IF_ERROR(file_->unchanged());
  if (end <= positions()) return {};
  return {Code::out_of_range,
          fmt::format("{}: the routing trace lasts for {} tokens, prompt and answer need {} by now", file_->path(),
                      positions(), end),
          "shorten the prompt or the answer (--max-tokens), or record a longer trace; it is not repeated"};
}

bool RoutingReplay::choose(LayerId layer, std::span<const Segment> segments, const Routed& routed) {
  check_layer(trace_.geometry(), layer, routed);
  each_row(segments, [&](int row, Pos position) {
    trace_.ids(static_cast<uint64_t>(position), static_cast<size_t>(layer.v), ids_of(routed, row));
  });
  return true;
}

}  // namespace strata
