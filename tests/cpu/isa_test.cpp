#include "cpu/isa.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "os/machine.h"

namespace strata {

TEST(Isa, HasGenericKernelsEverywhere) {
  ASSERT_NE(generic_kernels(), nullptr);
  EXPECT_STREQ(generic_kernels()->isa, "generic");
}

TEST(Isa, HasTheKernelsThatTheMachineCanRunAndNoOthers) {
#if defined(__x86_64__)
  const std::string level = isa_level();
  EXPECT_EQ(avx512_kernels() != nullptr, level == "avx512");
  EXPECT_EQ(avx2_kernels() != nullptr, level == "avx512" || level == "avx2");
  EXPECT_EQ(avxvnni_kernels() != nullptr, avx2_kernels() != nullptr && __builtin_cpu_supports("avxvnni"));
#else
  EXPECT_EQ(avx512_kernels(), nullptr);
  EXPECT_EQ(avx2_kernels(), nullptr);
  EXPECT_EQ(avxvnni_kernels(), nullptr);
#endif
}

}  // namespace strata
