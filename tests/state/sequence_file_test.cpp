// Saved conversations: what is written can be read, and what is damaged, foreign or too large leaves everything as it
// was.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>

#include "base/hash.h"
#include "state/fake_step.h"
#include "state/sequence.h"
#include "temp_dir.h"

namespace strata {
namespace {

using testing::fake_config;
using testing::FakeModel;
using testing::rows_after;

constexpr uint64_t kPrint = 0x1234567890abcdef;

std::unique_ptr<Sequence> conversation(FakeModel& model, int prompt, int answer) {
  auto s = model.sequence();
  for (int left = prompt; left > 0; left -= 96) {
    EXPECT_TRUE(model.step(*s, rows_after(*s, std::min(left, 96), RowRole::prompt, left)).ok());
  }
  for (int left = answer; left > 0; left -= 8) {
    EXPECT_TRUE(model.step(*s, rows_after(*s, std::min(left, 8), RowRole::generated, 200 + left)).ok());
  }
  return s;
}

std::vector<TokenRecord> records(const Sequence& s) {
  return {s.records().begin(), s.records().end()};
}

// Loading fails and the sequence is what it was, down to its marks and its pages.
void expect_refused(FakeModel& model, Sequence& s, const std::string& path, uint64_t fingerprint, Code code,
                    const std::string& word) {
  const auto before = records(s);
  const size_t marks = s.marks(), pages_free = model.pages->pages_free();
  const Status loaded = s.load(path, fingerprint);
  ASSERT_FALSE(loaded.ok()) << word;
  EXPECT_EQ(loaded.code(), code) << loaded.text();
  EXPECT_NE(loaded.text().find(word), std::string::npos) << loaded.text();
  EXPECT_NE(loaded.text().find("saved.bin"), std::string::npos) << loaded.text();
  EXPECT_EQ(records(s), before);
  EXPECT_EQ(s.marks(), marks);
  EXPECT_EQ(model.pages->pages_free(), pages_free);
}

class SavedConversation : public ::testing::Test {
 protected:
  std::string path() const { return dir_.path("saved.bin"); }
  std::string saved(FakeModel& model, int prompt = 70, int answer = 8) {
    const auto s = conversation(model, prompt, answer);
    const Status done = s->save(path(), kPrint);
    EXPECT_TRUE(done.ok()) << done.text();
    return dir_.get("saved.bin");
  }

  TempDir dir_;
};

TEST_F(SavedConversation, ComesBackAsItWasInEveryFormatAndAtEveryPlaceInABlockAndAPage) {
  for (const int block_tokens : {0, 4, 8}) {
    for (const KvFormat format : {KvFormat::f32, KvFormat::f16}) {
      FakeModel model(fake_config(block_tokens), format);
      for (const int n : {0, 3, 64, 130, 512}) {
        if (format == KvFormat::f16 && n != 130) continue;
        SCOPED_TRACE(fmt::format("{} tokens, blocks of {}, format {}", n, block_tokens, static_cast<int>(format)));
        const int answer = std::min(n, 5);
        auto s = conversation(model, n - answer, answer);
        const auto want = records(*s);
        ASSERT_TRUE(s->save(path(), kPrint).ok());
        model.expect_consistent(*s);
        s.reset();
        const auto other = model.sequence();
        const Status loaded = other->load(path(), kPrint);
        ASSERT_TRUE(loaded.ok()) << loaded.text();
        EXPECT_EQ(records(*other), want);
        model.expect_consistent(*other);
        if (other->room() < 20) continue;
        ASSERT_TRUE(model.step(*other, rows_after(*other, 12, RowRole::prompt, 9)).ok());
        ASSERT_TRUE(model.step(*other, rows_after(*other, 8, RowRole::generated, 9), 5).ok());
        model.expect_consistent(*other);
      }
    }
  }
}

TEST_F(SavedConversation, TheSameMomentGivesTheSameBytes) {
  FakeModel model;
  EXPECT_EQ(saved(model), saved(model));
}

TEST_F(SavedConversation, ReplacesWhatTheSequenceHeldAndItsMarks) {
  FakeModel model;
  saved(model);
  const auto s = conversation(model, 90, 0);
  ASSERT_TRUE(s->mark().ok());
  ASSERT_TRUE(s->load(path(), kPrint).ok());
  EXPECT_EQ(s->length(), 78);
  EXPECT_EQ(s->marks(), 0u);
  EXPECT_EQ(model.pages->pages_free(), 14u);
  model.expect_consistent(*s);
}

// The old conversation may be as long as the pool is large.
TEST_F(SavedConversation, LoadsOverAConversationWhosePagesItNeeds) {
  FakeModel model(fake_config(), KvFormat::f32, 5);
  saved(model, 250, 8);
  const auto s = conversation(model, 200, 40);
  ASSERT_TRUE(s->mark().ok());
  ASSERT_TRUE(s->load(path(), kPrint).ok());
  EXPECT_EQ(s->length(), 258);
  EXPECT_EQ(model.pages->pages_free(), 0u);
  model.expect_consistent(*s);
}

TEST_F(SavedConversation, IsRefusedWhenOthersHoldThePages) {
  FakeModel model(fake_config(), KvFormat::f32, 5);
  saved(model, 250, 0);
  const auto s = conversation(model, 60, 0), other = conversation(model, 100, 0);
  ASSERT_TRUE(s->mark().ok());
  expect_refused(model, *s, path(), kPrint, Code::out_of_memory, "needs 4 pages of keys and values, 3 can be had");
}

TEST_F(SavedConversation, CutAnywhereIsRefused) {
  FakeModel model;
  const std::string whole = saved(model);
  const auto s = conversation(model, 20, 4);
  ASSERT_TRUE(s->mark().ok());
  for (size_t n = 1; n < whole.size(); n += n < 200 ? 1 : 97) {
    dir_.put("saved.bin", whole.substr(0, n));
    expect_refused(model, *s, path(), kPrint, Code::corrupt, "");
    if (HasFailure()) FAIL() << n << " of " << whole.size() << " bytes";
  }
  dir_.put("saved.bin", whole + "x");
  expect_refused(model, *s, path(), kPrint, Code::corrupt, "expected");
  dir_.put("saved.bin", whole.substr(0, whole.size() - 1));
  expect_refused(model, *s, path(), kPrint, Code::corrupt, "damaged or incomplete");
  model.expect_consistent(*s);
}

TEST_F(SavedConversation, WithAnyBitFlippedIsRefused) {
  FakeModel model;
  const std::string whole = saved(model, 9, 2);
  const auto s = conversation(model, 20, 4);
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    dir_.put("saved.bin", damaged);
    const Status loaded = s->load(path(), kPrint);
    ASSERT_FALSE(loaded.ok()) << "byte " << i;
  }
  EXPECT_EQ(s->length(), 24);
  model.expect_consistent(*s);
}

// A header that asks for much, with the rest of the file behind it.
TEST_F(SavedConversation, HugeCountsAreRefusedWithoutAllocating) {
  FakeModel model;
  const std::string whole = saved(model);
  const auto s = conversation(model, 20, 4);
  for (size_t field = 1; field < 6; ++field) {
    for (const uint64_t value : {uint64_t{512}, uint64_t{1} << 31, uint64_t{1} << 63, UINT64_MAX}) {
      std::string hostile = whole;
      std::memcpy(hostile.data() + 8 + 8 * field, &value, sizeof value);
      dir_.put("saved.bin", hostile);
      ASSERT_FALSE(s->load(path(), kPrint).ok()) << "field " << field << " is " << value;
    }
  }
  EXPECT_EQ(s->length(), 24);
}

// Someone who knows the checksum can write anything; it may not break the program.
class Resealed : public SavedConversation {
 protected:
  static void seal(std::string& file) {
    const size_t n = file.size() - 8;
    Hash64 sum;
    sum.add(file.data(), n);
    const uint64_t hash = sum.value();
    std::memcpy(file.data() + n, &hash, sizeof hash);
  }
};

TEST_F(Resealed, RecordsOutOfRangeAreRefused) {
  FakeModel model;
  const std::string whole = saved(model);
  const auto s = conversation(model, 20, 4);
  std::string same = whole;
  seal(same);
  ASSERT_EQ(same, whole);
  constexpr size_t kRecords = 8 + 48, kRecord = 32;
  const std::pair<size_t, int32_t> edits[] = {{0, -1}, {4, 2}, {4, -1}, {8, -1}, {12, INT32_MAX}, {16, INT32_MIN}};
  for (const auto& [offset, value] : edits) {
    std::string hostile = whole;
    std::memcpy(hostile.data() + kRecords + 5 * kRecord + offset, &value, sizeof value);
    seal(hostile);
    dir_.put("saved.bin", hostile);
    expect_refused(model, *s, path(), kPrint, Code::corrupt, "token 5");
  }
}

TEST_F(SavedConversation, OfAnotherModelFormatOrContextSaysSo) {
  FakeModel model;
  saved(model, 200, 8);
  const auto s = conversation(model, 20, 4);
  expect_refused(model, *s, path(), kPrint + 1, Code::invalid_argument, "another model");

  FakeModel half(fake_config(), KvFormat::f16);
  const auto h = conversation(half, 20, 4);
  expect_refused(half, *h, path(), kPrint, Code::invalid_argument,
                 "another format of keys and values; choose the other --kv");

  FakeModel small(fake_config(), KvFormat::f32, 16, {100, 96});
  const auto t = conversation(small, 20, 4);
  expect_refused(small, *t, path(), kPrint, Code::out_of_range,
                 "holds 208 tokens, the context is 100; start with --max-context 208");

  ModelConfig wider = fake_config();
  wider.gdn_v_dim = 5;
  FakeModel shape(wider);
  const auto w = conversation(shape, 20, 4);
  expect_refused(shape, *w, path(), kPrint, Code::corrupt, "");
}

TEST_F(SavedConversation, MissingOrNotASavedFileSaysSo) {
  FakeModel model;
  const auto s = conversation(model, 20, 4);
  expect_refused(model, *s, path(), kPrint, Code::not_found, "");
  dir_.put("saved.bin", std::string(1000, 'x'));
  expect_refused(model, *s, path(), kPrint, Code::corrupt, "not a saved conversation");
  dir_.put("saved.bin", std::string("STRSEQ00").append(1000, '\0'));
  expect_refused(model, *s, path(), kPrint, Code::corrupt, "of this version");
  EXPECT_FALSE(s->load(dir_.path("."), kPrint).ok());
  EXPECT_EQ(s->length(), 24);
}

// What a full disk looks like to the writer.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limit = old_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit old_{};
  void (*handler_)(int) = nullptr;
};

TEST_F(SavedConversation, AFullDiskLeavesTheOldFileAndNothingElse) {
  FakeModel model;
  const std::string old = saved(model);
  const auto s = conversation(model, 200, 8);
  for (const rlim_t limit : {0, 100, 5000}) {
    const FileSizeLimit full(limit);
    EXPECT_EQ(s->save(path(), kPrint).code(), Code::io);
  }
  EXPECT_EQ(dir_.get("saved.bin"), old);
  EXPECT_EQ(dir_.entries(), 1u);
  model.expect_consistent(*s);
  EXPECT_FALSE(s->save(dir_.path("no/such/directory/saved.bin"), kPrint).ok());
}

}  // namespace
}  // namespace strata
