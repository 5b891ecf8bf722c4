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
  // Every thread has scratch of its own, so the number matters; the pool itself is not needed to count.
  auto d = std::make_shared<Device>(make_device(device, threads));
  return [d](const OpsShapes& shapes) { return d->ops->scratch_bytes(shapes); };
}

}  // namespace strata
