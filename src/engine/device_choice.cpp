#include "engine/device_choice.h"

#include <algorithm>
#include <vector>

#include "cpu/ops_cpu.h"

namespace strata {

Status check_device(const std::string& name, const std::string& isa) {
  if (name == "plain") {
    if (isa == "auto") return {};
    return {Code::invalid_argument, fmt::format("--isa {}: --device plain has no kernels to choose from", isa),
            "leave one of them out"};
  }
  if (name != "cpu") {
    return {Code::invalid_argument, fmt::format("--device {}: this build has no such device", name),
            "choose cpu or plain"};
  }
  std::vector<std::string_view> available;
  for (const Kernels* kernels : available_kernels()) available.emplace_back(kernels->isa);
  return check_isa(isa, available);
}

Status check_isa(const std::string& isa, std::span<const std::string_view> available) {
  if (isa == "auto" || std::find(available.begin(), available.end(), isa) != available.end()) return {};
  std::string hint = "choose auto";
  for (size_t i = 0; i < available.size(); ++i)
    hint += fmt::format("{}{}", i + 1 == available.size() ? " or " : ", ", available[i]);
  return {Code::invalid_argument, fmt::format("--isa {}: this processor or this build has no such kernels", isa), hint};
}

Device make_device(const std::string& name, int threads, const std::string& isa) {
  Device d;
  d.pool = std::make_unique<WorkerPool>(threads);
  d.ops = name == "plain" ? make_plain_ops() : make_cpu_ops(*d.pool, isa);
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
