// Save and load of one sequence. Layout, little endian: magic, header, token records, running state, open raw keys,
// then for each attention layer its keys, values and finished block keys in order of position; last a checksum of it
// all.
#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "os/file.h"
#include "state/sequence.h"

namespace strata {
namespace {

constexpr char kMagic[8] = {'S', 'T', 'R', 'S', 'E', 'Q', '0', '1'};
constexpr int32_t kMaxPosition = 1 << 30;  // far beyond any context, and no sum of two overflows

struct Header {
  uint64_t fingerprint = 0;
  uint64_t length = 0;
  uint64_t running_bytes = 0, open_values = 0, kv_bytes = 0;
  uint32_t format = 0, layers = 0;
};

struct SavedRecord {
  int32_t token = 0, role = 0, t = 0, h = 0, w = 0, padding = 0;
  uint64_t identity = 0;
};

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

// The parts of a sequence that a file holds, written and read in one order.
class SequenceFile {
 public:
  explicit SequenceFile(Sequence& s) : s_(s) {}

  // Calls fn(bytes) for every run of key, value and block-key bytes of the first `length` positions.
  template <class Fn>
  static Status each_kv(const KvView& kv, size_t n_layers, Pos length, Fn&& fn) {
    for (size_t i = 0; i < n_layers; ++i) {
      const KvLayer& l = kv.layers[i];
      const auto layer = static_cast<int>(i);
      for (Pos p = 0; p < length; p += kPageTokens) {
        const auto n = static_cast<size_t>(std::min<Pos>(kPageTokens, length - p));
        RETURN_IF_ERROR(fn(kv.k(layer, p), n * static_cast<size_t>(l.k_width) * kv.value_bytes()));
        RETURN_IF_ERROR(fn(kv.v(layer, p), n * static_cast<size_t>(l.v_width) * kv.value_bytes()));
        if (l.block_tokens == 0 || n < static_cast<size_t>(l.block_tokens)) continue;
        auto* keys = reinterpret_cast<std::byte*>(kv.block_key(layer, p / l.block_tokens));
        RETURN_IF_ERROR(
            fn(keys, n / static_cast<size_t>(l.block_tokens) * static_cast<size_t>(l.index_dim) * sizeof(float)));
      }
    }
    return {};
  }

  Header header(uint64_t fingerprint, Pos length) {
    Header h;
    h.fingerprint = fingerprint;
    h.length = static_cast<uint64_t>(length);
    h.running_bytes = s_.running_->geometry().snapshot_bytes();
    h.format = static_cast<uint32_t>(s_.pool_.geometry().format);
    h.layers = static_cast<uint32_t>(s_.layers_.size());
    for (const KvLayer& l : s_.layers_) {
      const auto n = static_cast<uint64_t>(length);
      h.kv_bytes += n * static_cast<uint64_t>(l.k_width + l.v_width) * (h.format == 0 ? 4 : 2);
      if (l.block_tokens == 0) continue;
      const auto block = static_cast<uint64_t>(l.block_tokens);
      h.kv_bytes += n / block * static_cast<uint64_t>(l.index_dim) * sizeof(float);
      h.open_values += n % block * static_cast<uint64_t>(l.index_dim);
    }
    return h;
  }

  Status save(const std::string& path, uint64_t fingerprint);
  Status load(const std::string& path, uint64_t fingerprint);

 private:
  static Status parse_records(std::span<const std::byte> body, const std::string& name, Checkpoint& out);
  void parse_state(std::span<const std::byte> body, const Header& h, Checkpoint& out);

  Sequence& s_;
};

Status SequenceFile::save(const std::string& path, uint64_t fingerprint) {
  s_.settle();
  ASSIGN_OR_RETURN(auto file, FileWriter::create(path));
  Hash64 sum;
  const auto put = [&](std::span<const std::byte> bytes) {
    sum.add(bytes.data(), bytes.size());
    return file->append(bytes);
  };
  RETURN_IF_ERROR(put(std::as_bytes(std::span(kMagic))));
  RETURN_IF_ERROR(put(bytes_of(header(fingerprint, s_.length()))));
  for (const TokenRecord& r : s_.records_) {
    RETURN_IF_ERROR(
        put(bytes_of(SavedRecord{r.token.v, static_cast<int32_t>(r.role), r.pos.t, r.pos.h, r.pos.w, 0, r.identity})));
  }
  std::vector<std::byte> running(s_.running_->geometry().snapshot_bytes());
  s_.running_->copy_out(running.data());
  RETURN_IF_ERROR(put(running));
  RETURN_IF_ERROR(put(std::as_bytes(std::span<const float>(s_.copy_open_keys()))));
  std::vector<std::byte> staging;
  RETURN_IF_ERROR(each_kv(s_.view().kv, s_.layers_.size(), s_.length(), [&](const void* at, size_t n) {
    staging.resize(n);
    s_.pool_.memory().copy(staging.data(), at, n);
    return put(staging);
  }));
  const uint64_t checksum = sum.value();
  RETURN_IF_ERROR(file->append(bytes_of(checksum)));
  return file->commit();
}

Status SequenceFile::load(const std::string& path, uint64_t fingerprint) {
  ASSIGN_OR_RETURN(const auto file, MappedFile::open(path));
  const std::span<const std::byte> bytes = file->bytes();
  const std::string name = file_name_of(path);
  Header h;
  constexpr size_t kFixed = sizeof kMagic + sizeof h + sizeof(uint64_t);
  if (bytes.size() < kFixed || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) {
    return {Code::corrupt, fmt::format("{}: not a saved conversation of this version", name),
            "choose a file that was saved by this program"};
  }
  std::memcpy(&h, bytes.data() + sizeof kMagic, sizeof h);
  if (h.fingerprint != fingerprint) {
    return {Code::invalid_argument, fmt::format("{}: saved with another model", name),
            "load it with the model it was saved with"};
  }
  if (h.length > static_cast<uint64_t>(s_.limits_.max_context)) {
    return {Code::out_of_range,
            fmt::format("{}: holds {} tokens, the context is {}", name, h.length, s_.limits_.max_context),
            fmt::format("start with --max-context {} or more", h.length)};
  }
  const Header want = header(fingerprint, static_cast<Pos>(h.length));
  if (h.format != want.format) {
    return {Code::invalid_argument, fmt::format("{}: saved with another format of keys and values", name),
            "choose the other --kv"};
  }
  const uint64_t size =
      kFixed + h.length * sizeof(SavedRecord) + want.running_bytes + want.open_values * sizeof(float) + want.kv_bytes;
  if (std::memcmp(&h, &want, sizeof h) != 0 || bytes.size() != size) {
    return {Code::corrupt, fmt::format("{}: {} bytes, expected {}", name, bytes.size(), size),
            "the file is damaged or incomplete"};
  }
  Hash64 sum;
  sum.add(bytes.data(), bytes.size() - sizeof(uint64_t));
  uint64_t stored = 0;
  std::memcpy(&stored, bytes.data() + bytes.size() - sizeof stored, sizeof stored);
  if (sum.value() != stored)
    return {Code::corrupt, fmt::format("{}: the checksum does not match", name), "the file is damaged"};
  Checkpoint loaded{static_cast<Pos>(h.length), {}, PageTable(s_.pool_), {}, {}};
  RETURN_IF_ERROR(parse_records(bytes.subspan(sizeof kMagic + sizeof h), name, loaded));
  ASSIGN_OR_RETURN(loaded.running, s_.pool_.memory().allocate(h.running_bytes, "a saved conversation"));
  const size_t pages = pages_of(loaded.length), pages_free = s_.pool_.pages_free();
  if (pages > pages_free + s_.own_pages()) {
    return {
        Code::out_of_memory,
        fmt::format("{}: needs {} pages of keys and values, {} can be had", name, pages, pages_free + s_.own_pages()),
        "end another conversation or raise --max-context"};
  }
  // Nothing can fail from here on, so the old pages may make room for the new ones.
  if (pages > pages_free) s_.clear();
  parse_state(bytes.subspan(sizeof kMagic + sizeof h + h.length * sizeof(SavedRecord)), h, loaded);
  s_.restore(loaded);
  return {};
}

Status SequenceFile::parse_records(std::span<const std::byte> body, const std::string& name, Checkpoint& out) {
  for (size_t i = 0; i < static_cast<size_t>(out.length); ++i) {
    SavedRecord r;
    std::memcpy(&r, body.data() + i * sizeof r, sizeof r);
    const bool sane = r.token >= 0 && (r.role == 0 || r.role == 1) && std::min({r.t, r.h, r.w}) >= 0 &&
                      std::max({r.t, r.h, r.w}) <= kMaxPosition;
    if (!sane) return {Code::corrupt, fmt::format("{}: token {} is no token", name, i), "the file is damaged"};
    out.records.push_back(
        {TokenId(r.token), r.role == 0 ? RowRole::generated : RowRole::prompt, {r.t, r.h, r.w}, r.identity});
  }
  return {};
}

void SequenceFile::parse_state(std::span<const std::byte> body, const Header& h, Checkpoint& out) {
  s_.pool_.memory().copy(out.running.data(), body.data(), h.running_bytes);
  body = body.subspan(h.running_bytes);
  out.open_keys.resize(h.open_values);
  if (h.open_values > 0) std::memcpy(out.open_keys.data(), body.data(), h.open_values * sizeof(float));
  body = body.subspan(h.open_values * sizeof(float));
  if (h.length == 0) return;
  const Status room = out.pages.make_writable(0, static_cast<int>(h.length));
  CHECK(room.ok(), "{}", room.text());
  KvView kv{s_.pool_.geometry().format, out.pages.data(), s_.layers_.data(), nullptr, 1};
  const Status copied = each_kv(kv, s_.layers_.size(), out.length, [&](void* at, size_t n) {
    s_.pool_.memory().copy(at, body.data(), n);
    body = body.subspan(n);
    return Status();
  });
  CHECK(copied.ok() && body.size() == sizeof(uint64_t), "{} bytes left", body.size());
}

Status Sequence::save(const std::string& path, uint64_t fingerprint) {
  CHECK(pending_.empty(), "a save in the middle of a step");
  return SequenceFile(*this).save(path, fingerprint);
}

Status Sequence::load(const std::string& path, uint64_t fingerprint) {
  return SequenceFile(*this).load(path, fingerprint);
}

}  // namespace strata
