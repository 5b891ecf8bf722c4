// Which implementation of the operations computes, and on what.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/memory_plan.h"
#include "ops/ops.h"
#include "os/threads.h"

namespace strata {

// A back end with the threads it runs on; the pool outlives the operations.
struct Device {
  std::unique_ptr<WorkerPool> pool;
  std::unique_ptr<Ops> ops;
};

// Fails on a name that is not a device of this build, and on kernels that this build or this processor lacks.
// isa: "auto" or the name of kernels, which the plain device has none of.
Status check_device(const std::string& name, const std::string& isa = "auto");
// The part of it that a test can give other lists; available: the best first.
Status check_isa(const std::string& isa, std::span<const std::string_view> available);
Device make_device(const std::string& name, int threads, const std::string& isa = "auto");
ScratchFn scratch_of(const std::string& device, int threads);

}  // namespace strata
