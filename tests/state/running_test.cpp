#include "state/running.h"

#include <gtest/gtest.h>

#include "state/fake_step.h"

namespace strata {
namespace {

using testing::fake_config;

// Remembers what was asked of it.
class CountingMemory final : public Memory {
 public:
  Result<Buffer> allocate(size_t bytes, const std::string& purpose) override {
    if (fails) return Status(Code::out_of_memory, purpose);
    asked += bytes;
    return host_.allocate(bytes, purpose);
  }
  void copy(void* to, const void* from, size_t bytes) override { host_.copy(to, from, bytes); }
  void zero(void* at, size_t bytes) override { host_.zero(at, bytes); }

  size_t asked = 0;
  bool fails = false;

 private:
  HostMemory host_;
};

struct Fixture {
  CountingMemory memory;
  std::unique_ptr<RunningState> state = RunningState::create(memory, running_geometry(fake_config())).value();

  SequenceView view() {
    SequenceView v;
    state->fill(v);
    return v;
  }
  void set_base(float value) { *view().gdn[0].base = value; }
};

TEST(RunningGeometry, CountsStatesHistoriesAndLogs) {
  const RunningGeometry g = running_geometry(fake_config());
  EXPECT_EQ(g.n_gdn, 2);
  EXPECT_EQ(g.state_values(), 2u * 2 * 3);
  EXPECT_EQ(g.conv_rows, 2);
  EXPECT_EQ(g.conv_width, 2 * 2 + 2 * 3);
  EXPECT_EQ(g.ple_rows, 6);
  EXPECT_EQ(g.ple_width, 6);
  EXPECT_EQ(g.snapshot_bytes(), 4u * (2 * (12 + 20) + 36));
}

TEST(RunningGeometry, OfThePublishedModelIsItsKnownSize) {
  ModelConfig c;
  c.streams = 4, c.d_model = 2560;
  c.n_delta_net = 36, c.gdn_k_heads = 16, c.gdn_v_heads = 48, c.gdn_k_dim = c.gdn_v_dim = 128, c.gdn_conv_kernel = 4;
  c.has_ngrams = true, c.ngram.size = 3, c.ngram.conv_kernel = 4;
  EXPECT_EQ(running_geometry(c).snapshot_bytes(), 113246208u + 4423680u + 368640u);
}

TEST(RunningGeometry, OfAModelOfAttentionAloneIsEmpty) {
  ModelConfig c;
  c.n_attention = 3;
  const RunningGeometry g = running_geometry(c);
  EXPECT_EQ(g.snapshot_bytes(), 0u);
  EXPECT_EQ(g.total_bytes(), 0u);
  HostMemory memory;
  const auto state = RunningState::create(memory, g).value();
  state->commit(RowRole::prompt, 5, 5);
  state->reset();
  std::byte nothing{};
  state->copy_out(&nothing);
  state->copy_in(&nothing);
}

TEST(RunningState, AllocatesExactlyWhatTheGeometrySays) {
  Fixture f;
  EXPECT_EQ(f.memory.asked, running_geometry(fake_config()).total_bytes());
  CountingMemory full;
  full.fails = true;
  EXPECT_EQ(RunningState::create(full, running_geometry(fake_config())).status().code(), Code::out_of_memory);
}

TEST(RunningState, APromptChunkIsKeptWholeOrNotAtAll) {
  Fixture f;
  f.set_base(1);
  *f.view().gdn[0].next = 2;
  *f.view().gdn[1].conv.next = 3;
  *f.view().ple.next = 4;
  f.state->commit(RowRole::prompt, 7, 0);
  EXPECT_EQ(*f.view().gdn[0].base, 1);
  f.state->commit(RowRole::prompt, 7, 7);
  EXPECT_EQ(*f.view().gdn[0].base, 2);
  EXPECT_EQ(*f.view().gdn[1].conv.base, 3);
  EXPECT_EQ(*f.view().ple.base, 4);
}

TEST(RunningState, AWindowOnlyNotesHowManyRowsOfItsLogAreKept) {
  Fixture f;
  f.set_base(1);
  const int log = f.view().log_current;
  f.state->commit(RowRole::generated, 8, 5);
  EXPECT_EQ(f.view().log_current, 1 - log);
  EXPECT_EQ(f.view().kept_rows, 5);
  EXPECT_EQ(*f.view().gdn[0].base, 1);
  f.state->drop_kept(2);
  EXPECT_EQ(f.view().kept_rows, 3);
  f.state->commit(RowRole::generated, 4, 0);
  EXPECT_EQ(f.view().log_current, log);
  EXPECT_EQ(f.view().kept_rows, 0);
}

TEST(RunningState, APromptChunkEndsTheLogEvenWhenItIsDropped) {
  for (const int keep : {0, 3}) {
    Fixture f;
    f.state->commit(RowRole::generated, 8, 5);
    f.state->commit(RowRole::prompt, 3, keep);
    EXPECT_EQ(f.view().kept_rows, 0);
  }
}

TEST(RunningState, CopiesOutAndBackInTheSameOrder) {
  Fixture f;
  float value = 1;
  SequenceView v = f.view();
  for (int l = 0; l < 2; ++l) {
    for (int i = 0; i < 12; ++i) v.gdn[l].base[i] = value++;
    for (int i = 0; i < 20; ++i) v.gdn[l].conv.base[i] = value++;
  }
  for (int i = 0; i < 36; ++i) v.ple.base[i] = value++;
  std::vector<std::byte> copy(f.state->geometry().snapshot_bytes()), again(copy.size());
  f.state->copy_out(copy.data());
  f.state->reset();
  EXPECT_EQ(*f.view().gdn[1].base, 0);
  EXPECT_EQ(*f.view().gdn[0].conv.base, 0);
  EXPECT_EQ(*f.view().ple.base, 0);
  f.state->copy_in(copy.data());
  f.state->copy_out(again.data());
  EXPECT_EQ(copy, again);
  EXPECT_EQ(f.view().ple.base[35], value - 1);
}

TEST(RunningStateDeathTest, PartOfAPromptOrMoreThanThereWasIsABug) {
  Fixture f;
  EXPECT_DEATH(f.state->commit(RowRole::prompt, 7, 3), "kept whole or not at all");
  EXPECT_DEATH(f.state->commit(RowRole::generated, 2, 3), "keep 3 of 2");
  EXPECT_DEATH(f.state->drop_kept(1), "drop 1 of 0");
}

TEST(RunningStateDeathTest, ACopyBeforeTheLogIsSettledIsABug) {
  Fixture f;
  f.state->commit(RowRole::generated, 2, 1);
  std::vector<std::byte> copy(f.state->geometry().snapshot_bytes());
  EXPECT_DEATH(f.state->copy_out(copy.data()), "not settled");
}

}  // namespace
}  // namespace strata
