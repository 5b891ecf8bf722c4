#include "engine/device_choice.h"

#include "cpu/ops_cpu.h"

namespace strata {

Status check_device(const std::string& name) {
  if (name == "plain" || name == "cpu") return {};
  return {Code::invalid_argument, fmt::format("--device {}: this build has no such device", name),
          "choose cpu or plain"};
}

Device make_device(const std::string& name, int threads) {
  Device d;
  d.pool = std::make_unique<WorkerPool>(threads);
  d.ops = name == "plain" ? make_plain_ops() : make_cpu_ops(*d.pool);
  return d;
}

ScratchFn scratch_of(const std::string& device, int threads) {
  if (device == "plain") {
    return
        [ops = std::shared_ptr<Ops>(make_plain_ops())](const OpsShapes& shapes) { return ops->scratch_bytes(shapes); };
  }
  return [threads](const OpsShapes& shapes) { return cpu_scratch_bytes(shapes, threads); };
}

}  // namespace strata
