// One timeline and its door, over a model that can be computed by hand (fake_step.h).
#include "state/sequence.h"

#include <gtest/gtest.h>

#include <random>

#include "state/fake_step.h"

namespace strata {
namespace {

using testing::fake_config;
using testing::FakeModel;
using testing::rows_after;

std::vector<int> tokens(std::span<const TokenRecord> records) {
  std::vector<int> out;
  for (const TokenRecord& r : records) out.push_back(r.token.v);
  return out;
}

struct Fixture {
  FakeModel model;
  std::unique_ptr<Sequence> s = model.sequence();

  void prompt(int n, int token = 1) { ASSERT_TRUE(model.step(*s, rows_after(*s, n, RowRole::prompt, token)).ok()); }
  void window(int n, int keep, int token = 100) {
    ASSERT_TRUE(model.step(*s, rows_after(*s, n, RowRole::generated, token), keep).ok());
  }
  void read(const std::vector<TokenRecord>& records) {
    for (const TokenRecord& r : records) ASSERT_TRUE(model.step(*s, std::span(&r, 1)).ok());
  }
};

TEST(Sequence, BeginsEmptyAndGrowsByWhatIsCommitted) {
  Fixture f;
  EXPECT_EQ(f.s->length(), 0);
  EXPECT_EQ(f.s->next_position(), 0);
  EXPECT_EQ(f.s->room(), 512);
  f.prompt(70);
  f.window(8, 3);
  EXPECT_EQ(f.s->length(), 73);
  EXPECT_EQ(f.s->room(), 439);
  EXPECT_EQ(f.s->records()[72].token, TokenId(102));
  EXPECT_EQ(f.s->records()[72].role, RowRole::generated);
  EXPECT_EQ(f.s->records()[69].role, RowRole::prompt);
  f.model.expect_consistent(*f.s);
}

TEST(Sequence, ASegmentTellsWhereItsRowsGo) {
  Fixture f;
  f.prompt(70);
  const auto rows = rows_after(*f.s, 5, RowRole::generated, 9);
  const Segment g = f.s->begin(rows).value();
  EXPECT_EQ(g.first_pos, 70);
  EXPECT_EQ(g.n_rows, 5);
  EXPECT_EQ(g.role, RowRole::generated);
  EXPECT_EQ(f.s->pending().size(), 5u);
  f.s->abandon();
  EXPECT_EQ(f.s->length(), 70);
  f.model.expect_consistent(*f.s);
}

TEST(Sequence, RowsBeyondTheContextAreRefusedAndNothingIsHeld) {
  Fixture f;
  for (int i = 0; i < 5; ++i) f.prompt(96);
  f.prompt(28);
  ASSERT_EQ(f.s->room(), 4);
  const size_t pages_free = f.model.pages->pages_free();
  const auto five = f.s->begin(rows_after(*f.s, 5, RowRole::generated, 1));
  ASSERT_FALSE(five.ok());
  EXPECT_EQ(five.status().code(), Code::out_of_range);
  EXPECT_EQ(five.status().message(), "508 tokens and 5 more exceed the context of 512");
  EXPECT_EQ(f.model.pages->pages_free(), pages_free);
  f.window(4, 4);
  EXPECT_EQ(f.s->room(), 0);
  f.model.expect_consistent(*f.s);
}

TEST(Sequence, DroppedRowsNeverHappened) {
  Fixture f;
  f.prompt(62);
  const size_t pages_free = f.model.pages->pages_free();
  f.window(8, 0);
  EXPECT_EQ(f.s->length(), 62);
  EXPECT_EQ(f.model.pages->pages_free(), pages_free) << "the page of dropped rows alone goes back";
  f.model.expect_consistent(*f.s);
  ASSERT_TRUE(f.model.step(*f.s, rows_after(*f.s, 40, RowRole::prompt, 300), 0).ok());
  f.model.expect_consistent(*f.s);
  f.window(8, 8);
  f.model.expect_consistent(*f.s);
}

// A page of dropped rows, shared with a mark, would have to be copied by every later step.
TEST(Sequence, AMarkHoldsNoPageOfDroppedRows) {
  Fixture f;
  f.prompt(62);
  f.window(8, 1);
  ASSERT_TRUE(f.s->mark().ok());
  const size_t pages_free = f.model.pages->pages_free();
  f.window(8, 8);
  EXPECT_EQ(f.model.pages->pages_free(), pages_free - 2) << "one copy of the mark's page, one new page";
}

TEST(Sequence, ThePositionThatFollowsAPictureIsBehindItsLargestSide) {
  Fixture f;
  const auto at = [](int t, int h, int w) { return TokenRecord{TokenId(7), RowRole::prompt, {t, h, w}, 99}; };
  ASSERT_TRUE(f.model
                  .step(*f.s, std::vector{TokenRecord::text(TokenId(1), 0, RowRole::prompt), at(1, 1, 1), at(1, 1, 2),
                                          at(1, 1, 3), at(1, 2, 1), at(1, 2, 2), at(1, 2, 3)})
                  .ok());
  EXPECT_EQ(f.s->next_position(), 4);
  f.window(2, 2);
  EXPECT_EQ(f.s->records().back().pos, (Pos3{5, 5, 5}));
  EXPECT_EQ(f.s->next_position(), 6);
  f.model.expect_consistent(*f.s);
}

TEST(SequenceRewind, InsideTheLastWindowNothingIsReadAgain) {
  Fixture f;
  f.prompt(63);
  f.window(8, 6);
  EXPECT_TRUE(f.s->rewind(69).empty());
  EXPECT_TRUE(f.s->rewind(67).empty());
  EXPECT_TRUE(f.s->rewind(65).empty());
  EXPECT_EQ(f.s->length(), 65);
  f.model.expect_consistent(*f.s);
  f.window(3, 3, 200);
  EXPECT_EQ(f.s->length(), 68);
  f.model.expect_consistent(*f.s);
  EXPECT_TRUE(f.s->rewind(65).empty());
  EXPECT_TRUE(f.s->rewind(65).empty()) << "to where it is";
  f.model.expect_consistent(*f.s);
}

TEST(SequenceRewind, BeyondTheWindowWithoutAMarkEverythingIsReadAgain) {
  Fixture f;
  f.prompt(20);
  f.window(4, 4);
  f.window(4, 4);
  const auto again = f.s->rewind(19);
  EXPECT_EQ(f.s->length(), 0);
  ASSERT_EQ(again.size(), 19u);
  EXPECT_EQ(again[18].token, TokenId(19));
  EXPECT_EQ(f.model.pages->pages_free(), 16u);
  f.read(again);
  f.model.expect_consistent(*f.s);
}

TEST(SequenceRewind, GoesBackToTheLastMarkBeforeTheTarget) {
  Fixture f;
  f.prompt(50);
  ASSERT_TRUE(f.s->mark().ok());
  f.window(8, 8);
  ASSERT_TRUE(f.s->mark().ok());
  f.window(8, 8);
  f.window(8, 8);
  const auto again = f.s->rewind(60);
  EXPECT_EQ(f.s->length(), 58);
  EXPECT_EQ(tokens(again), (std::vector<int>{100, 101}));
  EXPECT_EQ(again[0].role, RowRole::generated) << "a token keeps the role it had";
  f.model.expect_consistent(*f.s);
  f.read(again);
  f.model.expect_consistent(*f.s);
  EXPECT_EQ(tokens(f.s->rewind(55)), (std::vector<int>{100, 101, 102, 103, 104}));
  EXPECT_EQ(f.s->length(), 50);
  EXPECT_EQ(f.s->marks(), 1u);
  f.model.expect_consistent(*f.s);
}

TEST(SequenceRewind, ExactlyToAMarkReadsNothing) {
  Fixture f;
  f.prompt(50);
  ASSERT_TRUE(f.s->mark().ok());
  f.prompt(90, 200);
  EXPECT_TRUE(f.s->rewind(50).empty());
  EXPECT_EQ(f.s->length(), 50);
  EXPECT_EQ(f.s->marks(), 1u);
  f.model.expect_consistent(*f.s);
  f.prompt(90, 300);
  f.model.expect_consistent(*f.s);
}

TEST(SequenceRewind, ToTheStartIsAnEmptySequence) {
  Fixture f;
  f.prompt(50);
  ASSERT_TRUE(f.s->mark().ok());
  f.window(8, 8);
  EXPECT_TRUE(f.s->rewind(0).empty());
  EXPECT_EQ(f.s->length(), 0);
  EXPECT_EQ(f.s->marks(), 0u);
  EXPECT_EQ(f.model.pages->pages_free(), 16u);
  f.model.expect_consistent(*f.s);
}

TEST(SequenceRewindDeathTest, BeyondTheEndIsABug) {
  Fixture f;
  f.prompt(5);
  EXPECT_DEATH(f.s->rewind(6), "rewind to 6 of 5");
  EXPECT_DEATH(f.s->rewind(-1), "rewind to -1");
}

TEST(SequenceMark, TwiceAtOnePlaceIsOneMark) {
  Fixture f;
  f.prompt(5);
  ASSERT_TRUE(f.s->mark().ok());
  ASSERT_TRUE(f.s->mark().ok());
  EXPECT_EQ(f.s->marks(), 1u);
}

TEST(SequenceMark, TheFirstAndTheLatestAreKept) {
  Fixture f;
  for (int i = 0; i < 8; ++i) {
    f.prompt(10, 10 * i);
    ASSERT_TRUE(f.s->mark(3).ok());
  }
  EXPECT_EQ(f.s->marks(), 3u);
  EXPECT_EQ(f.s->rewind(69).size(), 59u) << "of 10, 70 and 80 only the first is before it";
  EXPECT_EQ(f.s->length(), 10);
  f.model.expect_consistent(*f.s);
}

TEST(SequenceMark, WithRoomForOneTheLatestIsKept) {
  Fixture f;
  for (int i = 0; i < 3; ++i) {
    f.prompt(10, 10 * i);
    ASSERT_TRUE(f.s->mark(1).ok());
  }
  EXPECT_EQ(f.s->marks(), 1u);
  EXPECT_TRUE(f.s->rewind(30).empty());
}

TEST(SequenceMark, SettlesTheLogSoThatTheWindowCannotBeCutAnyMore) {
  Fixture f;
  f.prompt(10);
  f.window(8, 8);
  ASSERT_TRUE(f.s->mark().ok());
  EXPECT_EQ(f.model.settled, 1);
  f.model.expect_consistent(*f.s);
  EXPECT_EQ(f.s->rewind(17).size(), 17u);
}

TEST(SequenceSnapshot, BringsAnotherSequenceToTheSameMoment) {
  Fixture f;
  f.prompt(70);
  f.window(8, 5);
  const Checkpoint c = f.s->snapshot().value();
  const auto other = f.model.sequence();
  ASSERT_TRUE(f.model.step(*other, rows_after(*other, 90, RowRole::prompt, 400)).ok());
  ASSERT_TRUE(other->mark().ok());
  const size_t pages_free = f.model.pages->pages_free();
  other->restore(c);
  EXPECT_EQ(f.model.pages->pages_free(), pages_free + 2) << "pages are shared";
  EXPECT_EQ(tokens(other->records()), tokens(f.s->records()));
  EXPECT_EQ(other->marks(), 0u);
  ASSERT_TRUE(f.model.step(*other, rows_after(*other, 8, RowRole::generated, 300)).ok());
  f.window(8, 8, 200);
  f.model.expect_consistent(*other);
  f.model.expect_consistent(*f.s);
}

TEST(SequenceSnapshot, OutlivesTheSequenceItCameFrom) {
  Fixture f;
  f.prompt(70);
  std::optional<Checkpoint> c(f.s->snapshot().value());
  f.s.reset();
  EXPECT_EQ(f.model.pages->pages_free(), 14u);
  const auto other = f.model.sequence();
  other->restore(*c);
  f.model.expect_consistent(*other);
  c.reset();
  other->clear();
  EXPECT_EQ(f.model.pages->pages_free(), 16u);
}

TEST(SequenceSnapshot, OfNothingIsNothing) {
  Fixture f;
  const Checkpoint c = f.s->snapshot().value();
  f.prompt(70);
  f.s->restore(c);
  EXPECT_EQ(f.s->length(), 0);
  f.model.expect_consistent(*f.s);
}

TEST(Sequence, ClearedIsLikeNew) {
  Fixture f;
  f.prompt(70);
  ASSERT_TRUE(f.s->mark().ok());
  f.window(8, 8);
  f.s->clear();
  EXPECT_EQ(f.s->length(), 0);
  EXPECT_EQ(f.s->marks(), 0u);
  EXPECT_EQ(f.model.pages->pages_free(), 16u);
  f.prompt(30, 200);
  f.model.expect_consistent(*f.s);
}

TEST(Sequence, WhenThePagesRunOutTheSequenceStaysAsItWas) {
  FakeModel model(fake_config(), KvFormat::f32, 4);
  const auto a = model.sequence(), b = model.sequence();
  ASSERT_TRUE(model.step(*a, rows_after(*a, 90, RowRole::prompt, 1)).ok());
  ASSERT_TRUE(model.step(*b, rows_after(*b, 60, RowRole::prompt, 200)).ok());
  const auto rows = rows_after(*b, 90, RowRole::prompt, 300);
  const Status full = model.step(*b, rows);
  EXPECT_EQ(full.code(), Code::out_of_memory);
  EXPECT_EQ(b->length(), 60);
  EXPECT_TRUE(b->pending().empty());
  EXPECT_EQ(model.pages->pages_free(), 1u);
  model.expect_consistent(*b);
  ASSERT_TRUE(model.step(*b, std::span(rows).first(68)).ok()) << "what fits goes on";
  model.expect_consistent(*b);
  a->clear();
  ASSERT_TRUE(model.step(*b, std::span(rows).subspan(68)).ok());
  model.expect_consistent(*b);
}

TEST(Sequence, ReachMakesRoomWithoutATokenBeingPending) {
  Fixture f;
  f.prompt(63);
  const Segment g = f.s->reach(62, 4).value();
  EXPECT_EQ(g.first_pos, 62);
  EXPECT_EQ(g.n_rows, 4);
  EXPECT_TRUE(f.s->pending().empty());
  f.model.expect_consistent(*f.s);
  const auto beyond = f.s->reach(510, 3);
  EXPECT_EQ(beyond.status().code(), Code::out_of_range);
}

TEST(SequenceDeathTest, StepsThatBreakTheProtocolAreBugs) {
  Fixture f;
  EXPECT_DEATH(f.s->commit(0), "nothing to commit");
  EXPECT_DEATH((void)f.s->begin({}), "a step needs rows");
  const auto nine = rows_after(*f.s, 9, RowRole::generated, 1), many = rows_after(*f.s, 97, RowRole::prompt, 1);
  EXPECT_DEATH((void)f.s->begin(nine), "9 rows in one step");
  EXPECT_DEATH((void)f.s->begin(many), "97 rows in one step");
  const auto rows = rows_after(*f.s, 3, RowRole::prompt, 1);
  ASSERT_TRUE(f.s->begin(rows).ok());
  EXPECT_DEATH((void)f.s->begin(rows), "still pending");
  EXPECT_DEATH((void)f.s->snapshot(), "middle of a step");
}

// Thousands of random operations on three sequences that share a pool, against the tokens alone.
class RandomOperations : public ::testing::TestWithParam<std::tuple<int, KvFormat, int>> {};

TEST_P(RandomOperations, LeaveStateKeysAndPagesConsistent) {
  const auto [block_tokens, format, seed] = GetParam();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  constexpr size_t kPages = 7;
  FakeModel model(fake_config(block_tokens), format, kPages, {256, 80});
  std::mt19937 random(static_cast<unsigned>(seed));
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  {
    std::vector<std::unique_ptr<Sequence>> all;
    std::vector<std::vector<TokenRecord>> want(3);
    for (int i = 0; i < 3; ++i) all.push_back(model.sequence());
    int refused = 0;
    const auto extend = [&](size_t i, int n, RowRole role, int keep) {
      n = std::min(n, all[i]->room());
      if (n == 0) return;
      keep = std::min(keep, n);
      const auto rows = rows_after(*all[i], n, role, below(400));
      const Status done = model.step(*all[i], rows, keep);
      if (!done.ok()) return void(++refused);
      want[i].insert(want[i].end(), rows.begin(), rows.begin() + keep);
    };
    const auto rewind = [&](size_t i, Pos target) {
      auto again = all[i]->rewind(target);
      const auto from = static_cast<size_t>(all[i]->length());
      ASSERT_EQ(from + again.size(), static_cast<size_t>(target));
      want[i].resize(from);
      for (const TokenRecord& r : again) {  // read again, unless the pages run out
        if (!model.step(*all[i], std::span(&r, 1)).ok()) return;
        want[i].push_back(r);
      }
    };
    for (int op = 0; op < 3000; ++op) {
      const auto i = static_cast<size_t>(below(3));
      Sequence& s = *all[i];
      const int kind = below(100), n = 1 + below(kMaxWindow);
      if (kind < 25) {
        const int rows = 1 + below(80);
        extend(i, rows, RowRole::prompt, below(4) == 0 ? 0 : rows);
      } else if (kind < 60) {
        extend(i, n, RowRole::generated, below(n + 1));
      } else if (kind < 75) {
        rewind(i, s.length() - below(s.length() + 1) / (1 + below(8)));
      } else if (kind < 82) {
        rewind(i, std::max(0, s.length() - below(6)));
      } else if (kind < 90) {
        ASSERT_TRUE(s.mark(1 + static_cast<size_t>(below(3))).ok());
      } else if (kind < 96) {
        const auto to = static_cast<size_t>(below(3));
        all[to]->restore(s.snapshot().value());
        want[to] = want[i];
      } else if (kind < 98) {
        s.clear();
        want[i].clear();
      } else {  // moved to another owner
        all[i].reset();
        all[i] = model.sequence();
        want[i].clear();
      }
      for (size_t k = 0; k < 3; ++k) {
        ASSERT_EQ(std::vector<TokenRecord>(all[k]->records().begin(), all[k]->records().end()), want[k])
            << "operation " << op;
      }
      model.expect_consistent(*all[i]);
      if (::testing::Test::HasFatalFailure()) FAIL() << "after operation " << op << ", kind " << kind;
    }
    EXPECT_GT(refused, 0) << "the pool was never full";
  }
  EXPECT_EQ(model.pages->pages_free(), kPages) << "pages leaked";
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomOperations,
                         ::testing::Combine(::testing::Values(0, 1, 4, 8),
                                            ::testing::Values(KvFormat::f32, KvFormat::f16), ::testing::Range(0, 4)));

}  // namespace
}  // namespace strata
