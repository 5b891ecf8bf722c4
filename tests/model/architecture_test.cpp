#include "model/architecture.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(Architecture, IsFoundByItsExactName) {
  EXPECT_EQ(find_architecture("qwen4exp"), &kQwen4Exp);
  for (const char* other : {"", "qwen4", "qwen4exp ", "QWEN4EXP", "llama"})
    EXPECT_EQ(find_architecture(other), nullptr) << other;
}

TEST(Architecture, TheListForMessagesNamesEveryOne) {
  EXPECT_EQ(architecture_names(), "qwen4exp");
}

}  // namespace
}  // namespace strata
