// State machine of a sequence on small models: whatever was extended, dropped, rewound, marked, forked, saved and
// loaded, the next logits are those of the same tokens read from the start, bit for bit.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <sstream>

#include "engine/model_harness.h"
#include "model/tiny_model.h"

namespace strata {
namespace {

using testing::Harness;
using testing::TinyGeometry;
using testing::TinyModel;

constexpr uint64_t kPrint = 77;

struct Setup {
  const char* device;
  const char* kv;
  int ratio;
  unsigned seed;
};

std::ostream& operator<<(std::ostream& out, const Setup& s) {
  return out << s.device << "_" << s.kv << "_blocks_of_" << s.ratio << "_seed_" << s.seed;
}

using Rows = std::vector<std::vector<float>>;
using Records = std::vector<TokenRecord>;

class SequenceStates : public ::testing::TestWithParam<Setup> {
 protected:
  static constexpr size_t kPages = 6;  // for three sequences of at most three pages, and marks
  static constexpr int kSequences = 3;

  void SetUp() override {
    TinyGeometry g = TinyGeometry::smallest();
    g.ratio = GetParam().ratio;
    TinyModel m(g);
    m.write(dir_.path("m.gguf"));
    harness_ = std::make_unique<Harness>(GetParam().device, dir_.path("m.gguf"), 0, GetParam().kv, "", 0, 1);
    reference_ = harness_->sequence();
    pages_ = PagePool::create(harness_->device.ops->memory(), kv_geometry(harness_->model->config, harness_->plan.kv),
                              kPages)
                 .value();
    for (int i = 0; i < kSequences; ++i) {
      all_.push_back(new_sequence());
      want_.emplace_back();
    }
    random_.seed(GetParam().seed);
  }

  std::unique_ptr<Sequence> new_sequence() {
    return Sequence::create(*pages_, running_geometry(harness_->model->config), {harness_->plan.max_context, 80},
                            [this](SequenceView& view) { harness_->device.ops->settle(harness_->gdn_weights, view); })
        .value();
  }

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  Rows logits(int n) {
    Rows out;
    for (int first = 0; first < n; first += kLogitRows) {
      const int count = std::min(kLogitRows, n - first);
      const MatF32 rows = harness_->forward->logits(first, count);
      for (int r = 0; r < count; ++r) out.emplace_back(rows.row(r), rows.row(r) + rows.cols);
    }
    return out;
  }

  // Logits of `rows` after `history`, which is read from the start with the roles it has.
  Rows from_scratch(const Records& history, std::span<const TokenRecord> rows) {
    reference_->clear();
    const auto run = [&](std::span<const TokenRecord> part) {
      ASSERT_TRUE(harness_->forward->run(*reference_, part).ok());
      reference_->commit(static_cast<int>(part.size()));
    };
    for (size_t at = 0; at < history.size();) {
      size_t n = 1;
      const size_t most = history[at].role == RowRole::generated ? kMaxWindow : 128;
      while (at + n < history.size() && n < most && history[at + n].role == history[at].role) ++n;
      run(std::span(history).subspan(at, n));
      at += n;
    }
    run(rows);
    return logits(static_cast<int>(rows.size()));
  }

  Records new_rows(const Sequence& s, int n, RowRole role) {
    Records rows;
    const int position = s.next_position();
    for (int i = 0; i < n; ++i) rows.push_back(TokenRecord::text(TokenId(below(32)), position + i, role));
    return rows;
  }

  // Runs rows and keeps some; every row's logits are compared, unless a later step's will be. False when the pages ran
  // out.
  bool extend(size_t i, const Records& rows, int keep, bool compare = true) {
    Sequence& s = *all_[i];
    const size_t pages_free = pages_->pages_free();
    const Status ran = harness_->forward->run(s, rows);
    if (!ran.ok()) {
      EXPECT_EQ(ran.code(), Code::out_of_memory) << ran.text();
      EXPECT_LE(pages_->pages_free(), pages_free);
      ++refused_;
      return false;
    }
    const Rows got = compare ? logits(static_cast<int>(rows.size())) : Rows();
    s.commit(keep);
    const Rows want = compare ? from_scratch(want_[i], rows) : Rows();
    for (size_t r = 0; r < got.size(); ++r) {
      EXPECT_EQ(std::memcmp(got[r].data(), want[r].data(), got[r].size() * sizeof(float)), 0)
          << "row " << r << " of " << rows.size() << " after " << want_[i].size() << " tokens";
    }
    want_[i].insert(want_[i].end(), rows.begin(), rows.begin() + keep);
    return true;
  }

  void extend_by(size_t i, int n, RowRole role) {
    n = std::min(n, all_[i]->room());
    if (n == 0) return;
    const int keep = role == RowRole::generated ? below(n + 1) : below(5) == 0 ? 0 : n;
    extend(i, new_rows(*all_[i], n, role), keep);
  }

  void rewind(size_t i, Pos target) {
    const Records again = all_[i]->rewind(target);
    const auto from = static_cast<size_t>(all_[i]->length());
    ASSERT_EQ(from + again.size(), static_cast<size_t>(target));
    want_[i].resize(from);
    for (size_t at = 0; at < again.size();) {  // with the roles they had, a few at a time
      size_t n = 1;
      while (at + n < again.size() && n < kMaxWindow && again[at + n].role == again[at].role) ++n;
      const Records part(again.begin() + static_cast<std::ptrdiff_t>(at),
                         again.begin() + static_cast<std::ptrdiff_t>(at + n));
      if (!extend(i, part, static_cast<int>(n), at + n == again.size())) return;
      at += n;
    }
  }

  void save_and_load(size_t from, size_t to) {
    ASSERT_TRUE(all_[from]->save(dir_.path("saved"), kPrint).ok());
    const Status loaded = all_[to]->load(dir_.path("saved"), kPrint);
    if (loaded.ok()) {
      want_[to] = want_[from];
    } else {
      EXPECT_EQ(loaded.code(), Code::out_of_memory) << loaded.text();
      ++refused_;
    }
  }

  void operate(size_t i) {
    const int kind = below(1000);
    Sequence& s = *all_[i];
    const auto other = static_cast<size_t>(below(kSequences));
    if (kind < 250) return extend_by(i, 1 + below(80), RowRole::prompt);
    if (kind < 600) return extend_by(i, 1 + below(kMaxWindow), RowRole::generated);
    if (kind < 700) return rewind(i, s.length() - below(s.length() + 1) / (1 + below(8)));
    if (kind < 780) return rewind(i, std::max(0, s.length() - below(7)));
    if (kind < 880) {
      ASSERT_TRUE(s.mark(1 + static_cast<size_t>(below(4))).ok());
    } else if (kind < 940) {
      all_[other]->restore(s.snapshot().value());
      want_[other] = want_[i];
    } else if (kind < 950) {
      save_and_load(i, other);
    } else if (kind < 980) {
      s.clear();
      want_[i].clear();
    } else {
      all_[i] = new_sequence();
      want_[i].clear();
    }
  }

  TempDir dir_;
  std::unique_ptr<Harness> harness_;
  std::unique_ptr<Sequence> reference_;
  std::unique_ptr<PagePool> pages_;
  std::vector<std::unique_ptr<Sequence>> all_;
  std::vector<Records> want_;
  std::mt19937 random_;
  int refused_ = 0;
};

TEST_P(SequenceStates, AnyWayToTheSameTokensGivesTheSameLogits) {
  const int operations = GetParam().device == std::string("plain") ? 300 : 700;  // the first is that much slower
  for (int op = 0; op < operations && !HasFailure(); ++op) {
    SCOPED_TRACE(::testing::Message() << "operation " << op << " of " << GetParam());
    const auto i = static_cast<size_t>(below(kSequences));
    operate(i);
    for (size_t k = 0; k < all_.size(); ++k) {
      ASSERT_EQ(Records(all_[k]->records().begin(), all_[k]->records().end()), want_[k]) << "sequence " << k;
    }
  }
  EXPECT_GT(refused_, 0) << "the pages never ran out";
  all_.clear();
  EXPECT_EQ(pages_->pages_free(), kPages) << "pages leaked";
}

std::vector<Setup> setups() {
  std::vector<Setup> out;
  unsigned seed = 1;
  for (const char* device : {"plain", "cpu"}) {
    for (const char* kv : {"f32", "f16"}) {
      for (const int ratio : {0, 4}) out.push_back({device, kv, ratio, seed++});
    }
  }
  return out;
}
INSTANTIATE_TEST_SUITE_P(Setups, SequenceStates, ::testing::ValuesIn(setups()),
                         [](const auto& info) { return (std::stringstream() << info.param).str(); });

// --- Decode = verify = prompt -------------------------------------------------------------------------------------

class OneArithmetic : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

// The widths of a step: alone, in windows, in chunks of many sizes, also across pages and beyond the indexer's budget.
TEST_P(OneArithmetic, RowsAloneInWindowsAndInChunksHaveTheSameLogits) {
  const auto [device, kv] = GetParam();
  TinyGeometry g;
  g.context = 256;
  const TempDir dir;
  TinyModel(g).write(dir.path("m.gguf"));
  Harness h(device, dir.path("m.gguf"), 0, kv, "", 0, 2);
  constexpr int kTokens = 150;
  std::mt19937 random(5);
  std::vector<TokenId> tokens;
  for (int i = 0; i < kTokens; ++i) tokens.emplace_back(static_cast<int32_t>(random() % 96));
  const auto read = [&](RowRole role, int step) {
    const auto s = h.sequence();
    Rows out;
    for (int at = 0; at < kTokens; at += step) {
      Records rows;
      for (int i = at; i < std::min(at + step, kTokens); ++i)
        rows.push_back(TokenRecord::text(tokens[static_cast<size_t>(i)], i, role));
      EXPECT_TRUE(h.forward->run(*s, rows).ok());
      for (int r = 0; r < static_cast<int>(rows.size()); ++r) {
        const MatF32 row = h.forward->logits(r, 1);
        out.emplace_back(row.data, row.data + row.cols);
      }
      s->commit(static_cast<int>(rows.size()));
    }
    return out;
  };
  const Rows want = read(RowRole::generated, 1);
  for (int window = 2; window <= kMaxWindow; ++window)
    EXPECT_TRUE(read(RowRole::generated, window) == want) << "windows of " << window;
  for (const int chunk : {1, 3, 16, 63, 64, 65, 150})
    EXPECT_TRUE(read(RowRole::prompt, chunk) == want) << "chunks of " << chunk;
}

INSTANTIATE_TEST_SUITE_P(Devices, OneArithmetic,
                         ::testing::Combine(::testing::Values("plain", "cpu"), ::testing::Values("f32", "f16")));

TEST(SavedState, OfOneKeyFormatDoesNotLoadInAnother) {
  const TempDir dir;
  TinyModel(TinyGeometry::smallest()).write(dir.path("m.gguf"));
  Harness f32("cpu", dir.path("m.gguf"), 0, "f32", "", 0, 1), f16("cpu", dir.path("m.gguf"), 0, "f16", "", 0, 1);
  const auto from = f32.sequence(), to = f16.sequence();
  f32.read(*from, std::vector<TokenId>(70, TokenId(3)));
  ASSERT_TRUE(from->save(dir.path("saved"), fingerprint(*f32.model)).ok());
  const Status other = to->load(dir.path("saved"), fingerprint(*f16.model));
  EXPECT_EQ(other.code(), Code::invalid_argument);
  EXPECT_EQ(to->length(), 0);
}

}  // namespace
}  // namespace strata
