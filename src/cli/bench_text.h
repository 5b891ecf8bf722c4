// What strata bench kernels prints: a table for a terminal, a shorter one in Markdown, and JSON with everything.
#pragma once

#include <string>

#include "base/json.h"
#include "engine/bench_kernels.h"

namespace strata {

std::string bench_table(const BenchReport& report);
std::string bench_markdown(const BenchReport& report);
Json bench_json(const BenchReport& report);

}  // namespace strata
