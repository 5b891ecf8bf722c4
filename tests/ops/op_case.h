// A case is one property of one operation that every implementation must have; the same list runs against each.
#pragma once

#include <gtest/gtest.h>

#include <ostream>

#include "ops/fixtures.h"

namespace strata::test {

struct OpCase {
  const char* name;
  void (*run)(Ops& ops, const Tolerance& tolerance);
};

inline std::ostream& operator<<(std::ostream& out, const OpCase& c) {
  return out << c.name;
}

struct OpCaseName {
  std::string operator()(const testing::TestParamInfo<OpCase>& info) const { return info.param.name; }
};

// What reserve() must be given before any case runs.
inline OpsShapes case_shapes() {
  OpsShapes s;
  s.max_rows = 160;
  s.d_model = 512;
  s.streams = 8;
  s.hyper_rank = 64;
  s.max_linear_inputs = 2048;
  s.max_gdn_channels = 1024;
  s.max_heads = 16;
  s.max_head_dim = 128;
  s.max_experts = 64;
  s.max_experts_used = 8;
  s.max_expert_width = 256;
  s.ngram_width = 512;
  s.max_context = 1024;
  s.max_index_heads = 8;
  s.max_index_dim = 64;
  s.block_tokens = 4;
  return s;
}

}  // namespace strata::test
