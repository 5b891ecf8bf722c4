// Which implementation of the operations computes, and on what.
#pragma once

#include <memory>

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

// Fails on a name that is not a device of this build.
Status check_device(const std::string& name);
Device make_device(const std::string& name, int threads);
ScratchFn scratch_of(const std::string& device, int threads);

}  // namespace strata
