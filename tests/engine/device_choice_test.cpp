#include "engine/device_choice.h"

#include <gtest/gtest.h>

#include "cpu/kernels.h"

namespace strata {
namespace {

OpsShapes shapes() {
  OpsShapes s;
  s.max_rows = 64, s.d_model = 64, s.streams = 2, s.hyper_rank = 8, s.max_linear_inputs = 128, s.max_gdn_channels = 160;
  s.max_heads = 4, s.max_head_dim = 16, s.max_experts = 8, s.max_experts_used = 3, s.max_expert_width = 32,
  s.ngram_width = 128;
  s.max_context = 512, s.max_index_heads = 2, s.max_index_dim = 16, s.block_tokens = 4;
  return s;
}

TEST(DeviceChoice, KnowsItsDevices) {
  EXPECT_TRUE(check_device("plain").ok());
  EXPECT_TRUE(check_device("cpu").ok());
  for (const char* other : {"", "CPU", "cuda", "cpu ", "gpu0"}) {
    const Status s = check_device(other);
    EXPECT_EQ(s.code(), Code::invalid_argument) << other;
    EXPECT_NE(s.message().find(std::string("--device ") + other), std::string::npos);
    EXPECT_NE(s.hint().find("cpu or plain"), std::string::npos);
  }
}

TEST(DeviceChoice, MakesWhatItWasAskedFor) {
  EXPECT_STREQ(make_device("plain", 1).ops->name(), "plain");
  const Device cpu = make_device("cpu", 2);
  EXPECT_STREQ(cpu.ops->name(), "cpu");
  EXPECT_GE(cpu.pool->n_threads(), 1);
  EXPECT_LE(cpu.pool->n_threads(), 2);
}

TEST(DeviceChoice, TakesTheKernelsThatAreNamed) {
  for (const Kernels* kernels : available_kernels()) {
    EXPECT_TRUE(check_device("cpu", kernels->isa).ok());
    EXPECT_STREQ(make_device("cpu", 1, kernels->isa).ops->isa(), kernels->isa);
  }
  EXPECT_STREQ(make_device("cpu", 1, "auto").ops->isa(), available_kernels().front()->isa);
  EXPECT_EQ(check_device("cpu", "neon").code(), Code::invalid_argument);
}

TEST(DeviceChoice, KernelsThatAreNotHereAreRefusedWithThoseThatAre) {
  const std::string_view all[] = {"avx512", "avx2", "generic"}, old[] = {"generic"};
  for (const char* name : {"auto", "avx512", "avx2", "generic"}) EXPECT_TRUE(check_isa(name, all).ok());
  EXPECT_TRUE(check_isa("auto", old).ok());
  EXPECT_EQ(check_isa("avx512", old).text(),
            "--isa avx512: this processor or this build has no such kernels; choose auto or generic");
  EXPECT_EQ(check_isa("AVX2", all).text(),
            "--isa AVX2: this processor or this build has no such kernels; choose auto, avx512, avx2 or generic");
  EXPECT_FALSE(check_isa("", all).ok());
}

TEST(DeviceChoice, ThePlainDeviceHasNoKernelsToChoose) {
  EXPECT_TRUE(check_device("plain", "auto").ok());
  const Status s = check_device("plain", "generic");
  EXPECT_EQ(s.text(), "--isa generic: --device plain has no kernels to choose from; leave one of them out");
  EXPECT_EQ(s.code(), Code::invalid_argument);
}

// Scratch is counted without a device that runs, for as many threads as it will have.
TEST(DeviceChoice, CountsTheScratchThatTheDeviceReserves) {
  for (const char* name : {"plain", "cpu"}) {
    for (const int threads : {1, 2}) {
      const Device d = make_device(name, threads);
      if (d.pool->n_threads() != threads) GTEST_SKIP() << "the system refuses threads";
      EXPECT_EQ(scratch_of(name, threads)(shapes()), d.ops->scratch_bytes(shapes())) << name;
      EXPECT_GT(d.ops->scratch_bytes(shapes()), 0u);
      EXPECT_TRUE(make_device(name, threads).ops->reserve(shapes()).ok());
    }
  }
  EXPECT_GT(scratch_of("cpu", 2)(shapes()), scratch_of("cpu", 1)(shapes()));
}

}  // namespace
}  // namespace strata
