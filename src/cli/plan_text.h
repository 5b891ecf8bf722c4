// The memory plan for people and for programs.
#pragma once

#include <string>

#include "base/json.h"
#include "base/log.h"
#include "engine/memory_plan.h"

namespace strata {

std::string plan_table(const Plan& plan);  // one line a use of memory, and the sums
Json plan_json(const Plan& plan);

// What was chosen without being asked for, and what should be known, each a line.
void log_plan(const Plan& plan, const std::string& model, const char* device, Log& log);

}  // namespace strata
