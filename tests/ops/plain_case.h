// How the plain twin runs a case.
#pragma once

#include "ops/op_case.h"
#include "ops/plain_ops.h"

namespace strata::test {

// Rounding of some float32 steps; sums are in double, so length adds nothing. 1e-5 is 80 units in the last place.
inline constexpr Tolerance kPlainTolerance{1e-5, 1e-5, true};

inline void run_plain(const OpCase& c) {
  PlainOps ops;
  ASSERT_TRUE(ops.reserve(case_shapes()).ok());
  c.run(ops, kPlainTolerance);
}

}  // namespace strata::test
