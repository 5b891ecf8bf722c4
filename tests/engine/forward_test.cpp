// Several sequences in one pass, and passes that cannot begin.
#include "engine/forward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/model_harness.h"
#include "model/tiny_model.h"

namespace strata {
namespace {

using testing::Harness;
using testing::TinyGeometry;
using testing::TinyModel;

using Rows = std::vector<std::vector<float>>;
using Records = std::vector<TokenRecord>;

class ForwardPass : public ::testing::TestWithParam<const char*> {
 protected:
  void open(TinyModel& m, int spare_pages = 40, int threads = 2) {
    h.reset();
    m.write(dir.path("m.gguf"));
    h = std::make_unique<Harness>(GetParam(), dir.path("m.gguf"), 0, "f32", "", spare_pages, threads);
  }
  void SetUp() override {
    TinyModel m;
    open(m);
  }
  static Records rows(const Sequence& s, int n, int salt, RowRole role) {
    Records out;
    for (int i = 0; i < n; ++i) {
      out.push_back(TokenRecord::text(TokenId((i * 13 + salt * 29 + static_cast<int>(s.length()) * 7) % 90),
                                      s.next_position() + i, role));
    }
    return out;
  }
  Rows logits(int first, int n) {
    const MatF32 m = h->forward->logits(first, n);
    Rows out;
    for (int r = 0; r < n; ++r) out.emplace_back(m.row(r), m.row(r) + m.cols);
    return out;
  }

  TempDir dir;
  std::unique_ptr<Harness> h;
};
INSTANTIATE_TEST_SUITE_P(Devices, ForwardPass, ::testing::Values("plain", "cpu"),
                         [](const auto& info) { return info.param; });

// Chunks of three lengths, then windows, then chunks again: neighbours never change a bit.
TEST_P(ForwardPass, ASequenceGetsTheSameLogitsInCompanyAndAlone) {
  std::vector<std::unique_ptr<Sequence>> together, alone;
  for (int i = 0; i < 3; ++i) together.push_back(h->sequence()), alone.push_back(h->sequence());
  const struct {
    RowRole role;
    std::array<int, 3> rows;
  } steps[] = {{RowRole::prompt, {70, 1, 33}},  {RowRole::generated, {1, 1, 1}}, {RowRole::generated, {8, 3, 5}},
               {RowRole::generated, {2, 8, 1}}, {RowRole::prompt, {5, 60, 2}},   {RowRole::generated, {4, 4, 4}}};
  int number = 0;
  for (const auto& step : steps) {
    SCOPED_TRACE(++number);
    std::vector<Records> each;
    for (size_t i = 0; i < 3; ++i) each.push_back(rows(*alone[i], step.rows[i], static_cast<int>(i), step.role));
    const std::vector<Work> work{
        {together[0].get(), each[0]}, {together[1].get(), each[1]}, {together[2].get(), each[2]}};
    ASSERT_TRUE(h->forward->run(work).ok());
    std::vector<Rows> got;
    int first = 0;
    for (size_t i = 0; i < 3; ++i) {
      got.emplace_back();
      for (int r = 0; r < step.rows[i]; ++r) got.back().push_back(logits(first + r, 1).front());
      first += step.rows[i];
    }
    for (size_t i = 0; i < 3; ++i) {
      const int keep = step.role == RowRole::prompt ? step.rows[i] : 1 + step.rows[i] / 2;
      together[i]->commit(keep);
      ASSERT_TRUE(h->forward->run(*alone[i], each[i]).ok());
      for (int r = 0; r < step.rows[i]; ++r) {
        EXPECT_TRUE(got[i][static_cast<size_t>(r)] == logits(r, 1).front()) << "sequence " << i << ", row " << r;
      }
      alone[i]->commit(keep);
    }
  }
}

TEST_P(ForwardPass, ANeighbourThatIsNotFiniteHarmsNobody) {
  TinyModel m;
  m.retype("token_embd.weight", DType::F32);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (size_t i = 0; i < 64; ++i)
    std::memcpy(m.bytes("token_embd.weight").data() + (95 * 64 + i) * sizeof nan, &nan, sizeof nan);
  open(m);
  const auto good = h->sequence(), bad = h->sequence(), alone = h->sequence();
  const Records sound = rows(*good, 20, 1, RowRole::prompt);
  Records broken = rows(*bad, 20, 2, RowRole::prompt);
  broken[5].token = TokenId(95);
  const std::vector<Work> work{{bad.get(), broken}, {good.get(), sound}};
  ASSERT_TRUE(h->forward->run(work).ok());
  const Rows of_bad = logits(19, 1), of_good = logits(20, 20);
  EXPECT_TRUE(std::isnan(of_bad[0][0]));
  ASSERT_TRUE(h->forward->run(*alone, sound).ok());
  EXPECT_TRUE(of_good == logits(0, 20));
}

TEST_P(ForwardPass, LogitsMayBeAskedForInAnyPieces) {
  const auto s = h->sequence();
  const Records r = rows(*s, 150, 1, RowRole::prompt);
  ASSERT_TRUE(h->forward->run(*s, r).ok());
  Rows one_by_one;
  for (int i = 0; i < 150; ++i) one_by_one.push_back(logits(i, 1).front());
  for (const int n : {2, 7, 63, 64}) {
    for (int first = 0; first + n <= 150; first += n) {
      const Rows piece = logits(first, n);
      EXPECT_TRUE(std::equal(piece.begin(), piece.end(), one_by_one.begin() + first)) << n << " from " << first;
    }
  }
  s->commit(150);
}

// Grams reach back over the edge of a step, and not over the start of a sequence.
TEST_P(ForwardPass, RowsOfTheNgramTableDependOnTheTextAndNotOnTheStep) {
  const auto whole = h->sequence(), split = h->sequence();
  const Records r = rows(*whole, 9, 4, RowRole::prompt);
  ASSERT_TRUE(h->forward->run(*whole, r).ok());
  const Rows want = logits(0, 9);
  whole->commit(9);
  for (size_t i = 0; i < 9; ++i) {
    ASSERT_TRUE(h->forward->run(*split, std::span(r).subspan(i, 1)).ok());
    EXPECT_TRUE(logits(0, 1).front() == want[i]) << "token " << i;
    split->commit(1);
  }
}

TEST_P(ForwardPass, WhenOneSequenceCannotBeginNoneDoes) {
  TinyModel m;
  open(m, 0);  // pages for one full context
  const auto a = h->sequence(), b = h->sequence(), c = h->sequence();
  h->extend(*b, rows(*b, 500, 1, RowRole::prompt));
  const Records fits = rows(*a, 70, 2, RowRole::prompt), too_long = rows(*b, 13, 3, RowRole::prompt);
  const size_t pages_free = h->pages->pages_free();
  const std::vector<Work> work{{a.get(), fits}, {b.get(), too_long}, {c.get(), fits}};
  const Status full = h->forward->run(work);
  EXPECT_EQ(full.code(), Code::out_of_range);
  for (const auto* s : {&a, &b, &c}) EXPECT_TRUE((*s)->pending().empty());
  EXPECT_EQ(a->length(), 0);
  EXPECT_EQ(b->length(), 500);
  EXPECT_EQ(h->pages->pages_free(), pages_free) << "nothing is held for a step that did not run";

  const Records many = rows(*c, 300, 2, RowRole::prompt);
  const Status pages = h->forward->run(std::vector<Work>{{a.get(), fits}, {c.get(), many}});
  EXPECT_EQ(pages.code(), Code::out_of_memory);
  EXPECT_EQ(h->pages->pages_free(), pages_free);
  EXPECT_FALSE(h->extend(*a, fits).empty()) << "what fits goes on";
}

TEST_P(ForwardPass, StepsThatBreakTheContractAreBugs) {
  TinyModel m;
  open(m, 0, 1);  // a death test forks, which wants one thread
  const auto a = h->sequence(), b = h->sequence();
  const Records prompt = rows(*a, 3, 1, RowRole::prompt), window = rows(*b, 3, 1, RowRole::generated);
  EXPECT_DEATH((void)h->forward->run(std::span<const Work>()), "a step needs rows");
  EXPECT_DEATH((void)h->forward->run(std::vector<Work>{{a.get(), prompt}, {b.get(), window}}), "one role");
  ASSERT_TRUE(h->forward->run(*a, prompt).ok());
  EXPECT_DEATH((void)h->forward->logits(2, 2), "logits of rows 2 to 4");
  EXPECT_DEATH((void)h->forward->logits(0, 65), "logits of rows");
}

}  // namespace
}  // namespace strata
