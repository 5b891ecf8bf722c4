// Any bytes either load as a saved conversation or fail with a status and leave the sequence as it was. The first byte
// of an input is the Setup, the rest is the file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/hash.h"
#include "state/sequence.h"

namespace {

using strata::Pos;
using strata::RowRole;
using strata::TokenId;
using strata::TokenRecord;

constexpr uint64_t kPrint = 0x1234567890abcdef;
constexpr strata::SequenceLimits kLimits{160, 32};
constexpr size_t kPages = 5;  // a full sequence leaves too few for another
constexpr size_t kHeaderBytes = 8 + 48, kRecordBytes = 32;

struct Setup {
  bool sealed, half, indexed, logged;  // the checksum is made right; formats; rows still in the log
  int n_rows;                          // what the sequence holds before

  int taken() const { return n_rows == 25 ? 3 : 0; }  // pages that others hold
};
Setup setup_of(uint8_t byte) {
  return {(byte & 1) != 0, (byte & 2) != 0, (byte & 4) != 0, (byte & 8) != 0, (byte >> 4) * 5};
}

strata::ModelConfig config_of(const Setup& setup) {
  strata::ModelConfig c;
  c.streams = 2, c.d_model = 3;
  c.heads = c.kv_heads = 1, c.head_dim = 2;
  if (setup.indexed) c.index_heads = 1, c.index_dim = 2, c.block_tokens = 4;
  c.gdn_k_heads = 1, c.gdn_v_heads = 1, c.gdn_k_dim = 2, c.gdn_v_dim = 3, c.gdn_conv_kernel = 3;
  c.n_delta_net = 2, c.n_attention = 2;
  c.has_ngrams = true;
  c.ngram.size = 2, c.ngram.conv_kernel = 3;
  return c;
}

class Conversation {
 public:
  explicit Conversation(const Setup& setup)
      : geometry_(strata::running_geometry(config_of(setup))),
        pages_(strata::PagePool::create(
                   memory_,
                   strata::kv_geometry(config_of(setup), setup.half ? strata::KvFormat::f16 : strata::KvFormat::f32),
                   kPages)
                   .value()),
        sequence_(strata::Sequence::create(*pages_, geometry_, kLimits, [](strata::SequenceView& v) {
                    for (int layer = 0; layer < 2; ++layer) *v.gdn[layer].base += static_cast<float>(v.kept_rows);
                  }).value()) {
    for (int i = 0; i < setup.taken(); ++i) CHECK(pages_->allocate().ok(), "no page");
    for (int left = setup.n_rows; left > 0; left -= 32) step(RowRole::prompt, std::min(left, 32));
    if (setup.n_rows > 40) CHECK(sequence_->mark().ok(), "no memory for a mark");
    if (setup.logged) step(RowRole::generated, 3);
  }

  strata::Sequence& operator*() const { return *sequence_; }
  strata::Sequence* operator->() const { return sequence_.get(); }
  size_t pages_free() const { return pages_->pages_free(); }

  // A step as the engine does it, whose cells hold something that depends on the position.
  bool step(RowRole role, int n) {
    std::vector<TokenRecord> rows;
    for (int i = 0; i < n; ++i) rows.push_back(TokenRecord::text(TokenId(i), sequence_->next_position() + i, role));
    const auto segment = sequence_->begin(rows);
    if (!segment.ok()) return false;
    strata::SequenceView& v = *segment->sequence;
    for (int layer = 0; layer < 2; ++layer) {
      if (role == RowRole::prompt) *v.gdn[layer].next = static_cast<float>(n + layer);
      for (Pos p = segment->first_pos; p < segment->first_pos + n; ++p) {
        std::memset(v.kv.k(layer, p), p & 0x3f, v.kv.value_bytes());
        std::memset(v.kv.v(layer, p), p & 0x3f, v.kv.value_bytes());
        if (v.kv.layers[layer].block_tokens == 0) continue;
        *v.kv.raw_key(layer, p) = *v.kv.block_key(layer, p / 4) = static_cast<float>(p);
      }
    }
    sequence_->commit(n);
    return true;
  }

  // Everything that the sequence holds, as bytes.
  std::string contents() const {
    const auto now = sequence_->snapshot().value();
    std::string out(reinterpret_cast<const char*>(now.running.data()), now.running.bytes());
    for (const TokenRecord& r : now.records) {
      for (const int64_t v : {int64_t{r.token.v}, static_cast<int64_t>(r.role), int64_t{r.pos.t}, int64_t{r.pos.h},
                              int64_t{r.pos.w}, static_cast<int64_t>(r.identity)}) {
        out.append(reinterpret_cast<const char*>(&v), sizeof v);
      }
    }
    for (size_t i = 0; i < now.pages.size(); ++i)
      out.append(reinterpret_cast<const char*>(now.pages.data()[i]), pages_->geometry().page_bytes);
    out.append(reinterpret_cast<const char*>(now.open_keys.data()), now.open_keys.size() * sizeof(float));
    return out;
  }
  size_t running_bytes() const { return geometry_.snapshot_bytes(); }

 private:
  strata::HostMemory memory_;
  strata::RunningGeometry geometry_;
  std::unique_ptr<strata::PagePool> pages_;
  std::unique_ptr<strata::Sequence> sequence_;
};

void seal(std::string& file) {
  if (file.size() < kHeaderBytes + sizeof(uint64_t)) return;
  strata::Hash64 sum;
  sum.add(file.data(), file.size() - sizeof(uint64_t));
  const uint64_t value = sum.value();
  std::memcpy(file.data() + file.size() - sizeof value, &value, sizeof value);
}

strata::Status load(strata::Sequence& s, std::string_view file) {
  const int fd = ::memfd_create("saved", MFD_CLOEXEC);
  CHECK(fd >= 0 && ::write(fd, file.data(), file.size()) == static_cast<ssize_t>(file.size()), "no file in memory");
  const strata::Status loaded = s.load(fmt::format("/proc/self/fd/{}", fd), kPrint);
  ::close(fd);
  return loaded;
}

// A loaded sequence holds what the file says.
void expect_loaded(const Conversation& c, std::string_view file) {
  const auto now = c->snapshot().value();
  CHECK(now.records.size() <= static_cast<size_t>(kLimits.max_context), "{} tokens", now.records.size());
  CHECK(c->marks() == 0 && now.pages.size() == strata::pages_of(c->length()), "marks or pages of before");
  const size_t at = kHeaderBytes + kRecordBytes * now.records.size();
  CHECK(std::memcmp(now.running.data(), file.data() + at, c.running_bytes()) == 0, "another running state");
  const size_t open_bytes = now.open_keys.size() * sizeof(float);
  CHECK(open_bytes == 0 || std::memcmp(now.open_keys.data(), file.data() + at + c.running_bytes(), open_bytes) == 0,
        "other open keys");
}

void use(Conversation& c) {
  const Pos before = c->length();
  const bool room = c->room() >= 12 && c.pages_free() >= 3;  // one page more, two that the marks share
  CHECK(c.step(RowRole::generated, 5) || !room, "a step found no room");
  CHECK(c->mark().ok(), "no memory for a mark");
  c.step(RowRole::prompt, 7);
  CHECK(!room || c->length() == before + 12, "{} tokens after {} and 12", c->length(), before);
  for (const Pos target : {c->length() - 1, before, before / 2}) {
    if (target < 0 || target > c->length()) continue;
    const auto again = c->rewind(target);
    CHECK(c->length() + static_cast<Pos>(again.size()) == target, "rewound to {} and {}", c->length(), again.size());
  }
  const auto moment = c->snapshot();
  CHECK(moment.ok(), "no memory for a checkpoint");
  const std::string contents = c.contents();
  c.step(RowRole::generated, 8);
  c->restore(*moment);
  CHECK(c.contents() == contents, "a restored sequence differs");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Setup setup = setup_of(data[0]);
  std::string file(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (setup.sealed) seal(file);
  Conversation c(setup);
  const size_t marks = c->marks(), pages_free = c.pages_free();
  const strata::Status loaded = load(*c, file);
  if (loaded.ok()) {
    expect_loaded(c, file);
  } else {
    CHECK(!loaded.message().empty(), "a failure without a message");
    CHECK(c->marks() == marks && c.pages_free() == pages_free, "a failure changed marks or pages");
    CHECK(c.contents() == Conversation(setup).contents(), "a failure changed the sequence");
  }
  use(c);
  return 0;
}
