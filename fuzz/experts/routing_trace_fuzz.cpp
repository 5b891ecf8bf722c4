// Any bytes either are a routing trace, which then says the same when it is written again, or fail with a status.
#include <cstring>
#include <set>
#include <string>

#include "experts/routing_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto trace = strata::RoutingTrace::parse(bytes, "input");
  if (!trace.ok()) {
    CHECK(trace.status().message().starts_with("input: "), "a message that does not name the file");
    CHECK(trace.status().message().find('\n') == std::string::npos, "a message of several lines");
    return 0;
  }
  const strata::RoutingGeometry& g = trace->geometry();
  CHECK(trace->fits(g, "input").ok(), "a trace that does not fit itself");
  std::string again = g.header(trace->positions());
  CHECK(again.size() == g.header_bytes(), "a header of {} bytes", again.size());
  std::vector<int32_t> ids;
  for (uint64_t p = 0; p < trace->positions(); ++p) {
    for (size_t layer = 0; layer < g.layers.size(); ++layer) {
      ids.assign(g.layers[layer].n_used, -1);
      trace->ids(p, layer, ids.data());
      CHECK(std::set<int32_t>(ids.begin(), ids.end()).size() == ids.size(), "an expert twice");
      for (const int32_t id : ids) {
        CHECK(id >= 0 && static_cast<uint32_t>(id) < g.layers[layer].n_experts, "expert {}", id);
        again += static_cast<char>(id & 0xff);
        again += static_cast<char>(id >> 8);
      }
    }
  }
  CHECK(again.size() == size && std::memcmp(again.data(), data, size) == 0, "written again it differs");
  return 0;
}
