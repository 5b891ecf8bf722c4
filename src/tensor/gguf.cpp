#include "tensor/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

namespace strata {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF numbers are read as they lie in memory");

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kVersion = 3;
constexpr size_t kHeaderBytes = 24;                        // magic, version, tensor count, key count
constexpr size_t kMinKeyBytes = 8 + 1 + 4 + 1;             // name length, name, type, the smallest value
constexpr size_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // name length, name, dimensions, one of them, type, offset
constexpr size_t kShownChars = 100;
constexpr const char* kAgain = "the file is damaged or was made by a broken tool: download it again";
constexpr const char* kIncomplete = "the file is incomplete: download it again";

uint64_t add_saturating(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<uint64_t>::max() : sum;
}

uint64_t align_up(uint64_t value, uint64_t alignment) {
  return add_saturating(value, alignment - 1) & ~(alignment - 1);
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Place K of N in "...-0000K-of-0000N.gguf"; `prefix` is everything before it.
struct ShardName {
  std::string prefix;
  int index = 0;  // from 0
  int count = 1;
  std::string path(int i) const { return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, i + 1, count); }
};

std::optional<ShardName> parse_shard_name(const std::string& path) {
  constexpr std::string_view kPattern = "-#####-of-#####.gguf";
  if (path.size() <= kPattern.size()) return std::nullopt;
  const size_t start = path.size() - kPattern.size();
  int numbers[2] = {0, 0};
  size_t digits = 0;
  for (size_t i = 0; i < kPattern.size(); ++i) {
    const char c = path[start + i];
    if (kPattern[i] != '#' ? c != kPattern[i] : (c < '0' || c > '9')) return std::nullopt;
    if (kPattern[i] == '#') {
      int& number = numbers[digits++ / 5];
      number = number * 10 + (c - '0');
    }
  }
  if (numbers[0] < 1 || numbers[0] > numbers[1]) return std::nullopt;
  return ShardName{path.substr(0, start), numbers[0] - 1, numbers[1]};
}

// Keys that speak of one file and may differ between shards of one model.
bool is_about_the_file(std::string_view key) {
  constexpr std::string_view kOwn[] = {"split.no", "general.alignment", "general.file_type", "general.size_label"};
  return std::find(std::begin(kOwn), std::end(kOwn), key) != std::end(kOwn) || key.starts_with("quantize.");
}

std::optional<uint64_t> small_number(const GgufValue& value) {
  if (value.is_array || value.type == GgufType::f32 || value.type == GgufType::f64) return std::nullopt;
  const size_t n = gguf_type_bytes(value.type);
  if (n == 0) return std::nullopt;
  uint64_t number = 0;
  std::memcpy(&number, value.data, n);
  const bool is_signed = value.type == GgufType::i8 || value.type == GgufType::i16 || value.type == GgufType::i32 ||
                         value.type == GgufType::i64;
  if (is_signed && (number >> (8 * n - 1)) != 0) return std::nullopt;
  return number;
}

// What a file that is not GGUF seems to be, for the hint.
const char* hint_for_stranger(std::string_view bytes) {
  if (bytes.starts_with("version https://git-lfs"))
    return "this is a Git LFS pointer: fetch the real file with git lfs pull";
  if (bytes.starts_with("<!") || bytes.starts_with("<html") || bytes.starts_with("{\"")) {
    return "this is a web page or an error answer: download the file itself";
  }
  if (bytes.starts_with("ggml") || bytes.starts_with("lmgg") || bytes.starts_with("tjgg") ||
      bytes.starts_with("fmgg")) {
    return "this is a format older than GGUF: get a GGUF version 3 file";
  }
  return "name a model file in GGUF format";
}

}  // namespace

struct Gguf::Loader {
  Gguf& out;
  int shard;
  const std::string& path;
  std::span<const std::byte> bytes;
  size_t at = 0;
  uint64_t n_tensors = 0, n_keys = 0, alignment = 32;
  std::unordered_map<std::string_view, GgufValue> own = {};  // keys of this shard
  std::vector<std::string_view> own_order = {};

  size_t left() const { return bytes.size() - at; }
  Status fail(const std::string& message, const char* hint = kAgain, Code code = Code::corrupt) const {
    return {code, path + ": " + message, hint};
  }
  Status cut(const std::string& what, uint64_t need) const {
    return fail(fmt::format("the file ends inside {}: {} bytes expected at byte {}, {} left", what, need, at, left()),
                kIncomplete);
  }
  template <class T>
  bool take(T* value) {
    if (left() < sizeof(T)) return false;
    std::memcpy(value, bytes.data() + at, sizeof(T));
    at += sizeof(T);
    return true;
  }
  std::optional<uint64_t> own_number(const char* key) const {
    const auto it = own.find(key);
    return it == own.end() ? std::nullopt : small_number(it->second);
  }

  Status run();
  Status read_header();
  Status read_name(const std::string& what, std::string_view* name);
  Status read_key(uint64_t index);
  Status read_array(const std::string& what, GgufValue* value);
  Status read_scalar(const std::string& what, GgufValue* value);
  Status read_strings(const std::string& what, GgufValue* value);
  Status check_bools(const std::string& what, const GgufValue& value) const;
  Status read_alignment();
  Status read_tensor(uint64_t index);
  Status place_tensors(size_t first);
  Status check_overlaps(size_t first) const;
  Status check_end(uint64_t end) const;
  Status check_split(int n_shards) const;
  Status merge_keys();
};

Status Gguf::Loader::run() {
  RETURN_IF_ERROR(read_header());
  own_order.reserve(std::min<uint64_t>(n_keys, 4096));
  for (uint64_t i = 0; i < n_keys; ++i) RETURN_IF_ERROR(read_key(i));
  RETURN_IF_ERROR(read_alignment());
  if (n_tensors > left() / kMinTensorBytes) {
    return fail(fmt::format("the header counts {} tensors, but the {} bytes left hold at most {}", n_tensors, left(),
                            left() / kMinTensorBytes),
                kIncomplete);
  }
  const size_t first = out.tensors_.size();
  for (uint64_t i = 0; i < n_tensors; ++i) RETURN_IF_ERROR(read_tensor(i));
  return place_tensors(first);
}

Status Gguf::Loader::read_header() {
  const std::string_view begin = as_text(bytes.first(std::min<size_t>(bytes.size(), 64)));
  if (!begin.starts_with(kMagic.substr(0, std::min(begin.size(), kMagic.size())))) {
    return fail(fmt::format("not a GGUF file: begins with \"{}\", expected \"GGUF\"", printable(begin, 24)),
                hint_for_stranger(begin));
  }
  if (bytes.size() < kHeaderBytes) {
    return fail(fmt::format("too small for a GGUF file: {} bytes, the header alone has {}", bytes.size(), kHeaderBytes),
                kIncomplete);
  }
  at = kMagic.size();
  uint32_t version = 0;
  CHECK(take(&version) && take(&n_tensors) && take(&n_keys), "the header was measured");
  if (version != 0 && (version & 0xFFFF) == 0) {
    return fail("the file is big-endian, expected little-endian", "get the little-endian file", Code::unsupported);
  }
  if (version != kVersion) {
    return fail(
        fmt::format("GGUF version {}, expected {}", version, kVersion),
        version < kVersion ? "convert the model again with a current tool" : "a newer program is needed for this file",
        Code::unsupported);
  }
  if (n_keys > left() / kMinKeyBytes) {
    return fail(fmt::format("the header counts {} keys, but the {} bytes left hold at most {}", n_keys, left(),
                            left() / kMinKeyBytes),
                kIncomplete);
  }
  return {};
}

Status Gguf::Loader::read_name(const std::string& what, std::string_view* name) {
  uint64_t length = 0;
  if (!take(&length)) return cut("the name length of " + what, sizeof length);
  if (length > left()) return cut("the name of " + what, length);
  *name = as_text(bytes.subspan(at, length));
  const Status status = check_gguf_name(*name);
  if (!status.ok()) return fail(fmt::format("{} at byte {}: {}", what, at, status.message()));
  at += length;
  return {};
}

Status Gguf::Loader::read_key(uint64_t index) {
  std::string_view name;
  RETURN_IF_ERROR(read_name(fmt::format("key {} of {}", index + 1, n_keys), &name));
  const std::string what = fmt::format("key '{}'", printable(name, kShownChars));
  GgufValue value;
  uint32_t type = 0;
  if (!take(&type)) return cut("the type of " + what, sizeof type);
  if (type > static_cast<uint32_t>(GgufType::f64)) {
    return fail(
        fmt::format("{} has the value type {}, known are 0 to {}", what, type, static_cast<uint32_t>(GgufType::f64)));
  }
  value.type = static_cast<GgufType>(type);
  RETURN_IF_ERROR(value.type == GgufType::array ? read_array(what, &value) : read_scalar(what, &value));
  RETURN_IF_ERROR(check_bools(what, value));
  if (!own.emplace(name, value).second) return fail(what + " occurs twice");
  own_order.push_back(name);
  return {};
}

Status Gguf::Loader::read_scalar(const std::string& what, GgufValue* value) {
  if (value->type == GgufType::string) return read_strings(what, value);
  value->bytes = gguf_type_bytes(value->type);
  if (left() < value->bytes) return cut("the value of " + what, value->bytes);
  value->data = bytes.data() + at;
  at += value->bytes;
  return {};
}

Status Gguf::Loader::read_array(const std::string& what, GgufValue* value) {
  uint32_t type = 0;
  value->is_array = true;
  if (!take(&type)) return cut("the element type of " + what, sizeof type);
  if (!take(&value->count)) return cut("the element count of " + what, sizeof value->count);
  if (type == static_cast<uint32_t>(GgufType::array)) {
    return fail(what + " is an array of arrays, expected an array of numbers, bools or strings", kAgain,
                Code::unsupported);
  }
  if (type > static_cast<uint32_t>(GgufType::f64)) {
    return fail(fmt::format("{} is an array of the value type {}, known are 0 to {}", what, type,
                            static_cast<uint32_t>(GgufType::f64)));
  }
  value->type = static_cast<GgufType>(type);
  const size_t smallest = value->type == GgufType::string ? sizeof(uint64_t) : gguf_type_bytes(value->type);
  if (value->count > left() / smallest) {
    return fail(fmt::format("{} is {} {} values long, but the {} bytes left hold at most {}", what, value->count,
                            gguf_type_name(value->type), left(), left() / smallest),
                kIncomplete);
  }
  if (value->type == GgufType::string) return read_strings(what, value);
  value->data = bytes.data() + at;
  value->bytes = static_cast<size_t>(value->count) * smallest;
  at += value->bytes;
  return {};
}

// Walks over value->count strings without copying one.
Status Gguf::Loader::read_strings(const std::string& what, GgufValue* value) {
  const size_t start = at;
  value->data = bytes.data() + at;
  for (uint64_t i = 0; i < value->count; ++i) {
    uint64_t length = 0;
    const bool has_length = take(&length);
    if (!has_length || length > left()) {
      const std::string part = value->is_array ? fmt::format("string {} of {}", i, what) : "the string of " + what;
      return cut(has_length ? part : "the length of " + part, has_length ? length : sizeof length);
    }
    at += static_cast<size_t>(length);
  }
  value->bytes = at - start;
  return {};
}

Status Gguf::Loader::check_bools(const std::string& what, const GgufValue& value) const {
  if (value.type != GgufType::boolean) return {};
  for (size_t i = 0; i < value.bytes; ++i) {
    const auto byte = static_cast<unsigned>(value.data[i]);
    if (byte <= 1) continue;
    return fail(fmt::format("{} has the bool value {}{}, expected 0 or 1", what, byte,
                            value.is_array ? fmt::format(" at element {}", i) : ""));
  }
  return {};
}

Status Gguf::Loader::read_alignment() {
  const auto it = own.find("general.alignment");
  if (it == own.end()) return {};
  const auto number = small_number(it->second);
  if (!number || !std::has_single_bit(*number) || *number < kGgufMinAlignment || *number > kGgufMaxAlignment) {
    return fail(
        fmt::format("key 'general.alignment' is {}{}, expected a power of two from {} to {}",
                    it->second.is_array ? "an array of " : "",
                    number && !it->second.is_array ? out.value_text(it->second, 20) : gguf_type_name(it->second.type),
                    kGgufMinAlignment, kGgufMaxAlignment));
  }
  alignment = *number;
  return {};
}

Status Gguf::Loader::read_tensor(uint64_t index) {
  GgufTensor tensor;
  RETURN_IF_ERROR(read_name(fmt::format("tensor {} of {}", index + 1, n_tensors), &tensor.name));
  const std::string what = fmt::format("tensor '{}'", printable(tensor.name, kShownChars));
  uint32_t n_dims = 0, type = 0;
  if (!take(&n_dims)) return cut("the number of dimensions of " + what, sizeof n_dims);
  if (n_dims < 1 || n_dims > tensor.shape.ne.size()) {
    return fail(fmt::format("{} has {} dimensions, expected 1 to {}", what, n_dims, tensor.shape.ne.size()));
  }
  tensor.shape.n_dims = static_cast<int>(n_dims);
  for (uint32_t i = 0; i < n_dims; ++i) {
    uint64_t dim = 0;
    if (!take(&dim)) return cut(fmt::format("dimension {} of {}", i, what), sizeof dim);
    if (dim > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return fail(fmt::format("{}: dimension {} is {}, expected at most {}", what, i, dim,
                              std::numeric_limits<int64_t>::max()));
    }
    tensor.shape.ne[i] = static_cast<int64_t>(dim);
  }
  if (!take(&type)) return cut("the type of " + what, sizeof type);
  if (!take(&tensor.file_offset)) return cut("the offset of " + what, sizeof tensor.file_offset);
  if (find_type(type) == nullptr) {
    return fail(fmt::format("{} has the type id {}, which this build does not know", what, type),
                "get a file whose tensors have types this build lists", Code::unsupported);
  }
  tensor.type = static_cast<DType>(type);
  const auto size = checked_bytes(tensor.type, tensor.shape);
  if (!size.ok()) return fail(what + ": " + size.status().message());
  tensor.bytes = *size;
  tensor.shard = shard;
  const auto [other, is_new] = out.tensor_index_.emplace(tensor.name, out.tensors_.size());
  if (!is_new) {
    const int first = out.tensors_[other->second].shard;
    if (first == shard) return fail(what + " occurs twice");
    return fail(fmt::format("{} is also in {}", what, out.shards_[static_cast<size_t>(first)].path),
                "the shards are not from one model: download all of them again");
  }
  out.tensors_.push_back(tensor);
  return {};
}

// The tensors read so far have offsets from the start of the data, which begins behind the padded header.
Status Gguf::Loader::place_tensors(size_t first) {
  const uint64_t data_start = align_up(at, alignment);
  const uint64_t data_bytes = bytes.size() - std::min<uint64_t>(data_start, bytes.size());
  uint64_t end = at;
  const GgufTensor* outside = nullptr;
  for (size_t i = first; i < out.tensors_.size(); ++i) {
    GgufTensor& tensor = out.tensors_[i];
    const uint64_t offset = tensor.file_offset;
    if (offset % alignment != 0) {
      return fail(fmt::format("tensor '{}' lies at offset {}, expected a multiple of {}",
                              printable(tensor.name, kShownChars), offset, alignment));
    }
    tensor.file_offset = add_saturating(data_start, offset);
    end = std::max(end, add_saturating(tensor.file_offset, tensor.bytes));
    const bool inside = offset <= data_bytes && tensor.bytes <= data_bytes - offset;
    if (inside) tensor.data = bytes.data() + tensor.file_offset;
    if (!inside && outside == nullptr) outside = &tensor;
  }
  RETURN_IF_ERROR(check_overlaps(first));
  if (outside != nullptr) {
    return fail(fmt::format("tensor '{}' ({}, {}) needs bytes {} to {} of the file, which has {}",
                            printable(outside->name, kShownChars), type_name(outside->type), outside->shape.text(),
                            outside->file_offset, add_saturating(outside->file_offset, outside->bytes), bytes.size()),
                fmt::format("the file is incomplete ({} bytes expected): download it again", end).c_str());
  }
  return check_end(end);
}

Status Gguf::Loader::check_overlaps(size_t first) const {
  std::vector<const GgufTensor*> sorted;
  sorted.reserve(out.tensors_.size() - first);
  for (size_t i = first; i < out.tensors_.size(); ++i) sorted.push_back(&out.tensors_[i]);
  std::sort(sorted.begin(), sorted.end(), [](const GgufTensor* a, const GgufTensor* b) {
    return a->file_offset != b->file_offset ? a->file_offset < b->file_offset : a < b;
  });
  for (size_t i = 1; i < sorted.size(); ++i) {
    const GgufTensor &a = *sorted[i - 1], &b = *sorted[i];
    const uint64_t end = add_saturating(a.file_offset, a.bytes);
    if (end <= b.file_offset) continue;
    // Another maker's files use the same id for a smaller block, so every tensor seems to run into the next one.
    const char* hint = a.type == DType::Q2_0
                           ? "this file may mean another format by the type id of Q2_0 (blocks of 128 values)"
                           : kAgain;
    return fail(fmt::format("tensor '{}' ({}, {}) ends at byte {}, but tensor '{}' begins at {}",
                            printable(a.name, kShownChars), type_name(a.type), a.shape.text(), end,
                            printable(b.name, kShownChars), b.file_offset),
                hint);
  }
  return {};
}

// Files joined with cat: the next header begins where this file's data ends, with or without its padding.
Status Gguf::Loader::check_end(uint64_t end) const {
  for (const uint64_t next : {end, align_up(end, alignment)}) {
    if (next >= bytes.size() || !as_text(bytes.subspan(next)).starts_with(kMagic)) continue;
    return fail(fmt::format("a second GGUF file begins at byte {}: files were joined", next),
                "keep the shards as separate files with their original names");
  }
  return {};
}

Status Gguf::Loader::check_split(int n_shards) const {
  const auto no = own_number("split.no"), count = own_number("split.count");
  for (const char* key : {"split.no", "split.count", "split.tensors.count"}) {
    if (own.contains(key) && !own_number(key)) return fail(fmt::format("key '{}' is not a non-negative integer", key));
  }
  if (n_shards == 1) {
    if (count.value_or(1) <= 1) return {};
    return fail(fmt::format("is shard {} of {}, but its name does not end in -{:05}-of-{:05}.gguf", no.value_or(0) + 1,
                            *count, no.value_or(0) + 1, *count),
                "give all shards their original names and keep them in one directory", Code::invalid_argument);
  }
  constexpr const char* kHint = "the shards were mixed up: give them their original names, or download them again";
  for (const char* key : {"split.no", "split.count"}) {
    if (!own.contains(key))
      return fail(fmt::format("key '{}' is missing in shard {} of {}", key, shard + 1, n_shards), kHint);
  }
  if (*count != static_cast<uint64_t>(n_shards)) {
    return fail(fmt::format("key 'split.count' is {}, but the name says {}", *count, n_shards), kHint);
  }
  if (*no != static_cast<uint64_t>(shard)) {
    return fail(
        fmt::format("key 'split.no' is {}, so this is shard {}, but the name says shard {}", *no, *no + 1, shard + 1),
        kHint);
  }
  return {};
}

Status Gguf::Loader::merge_keys() {
  for (const std::string_view key : own_order) {
    const GgufValue& mine = own.at(key);
    const auto [it, is_new] = out.values_.emplace(key, mine);
    if (is_new) {
      out.key_order_.push_back(key);
      continue;
    }
    const GgufValue& first = it->second;
    const bool equal = first.type == mine.type && first.is_array == mine.is_array && first.count == mine.count &&
                       first.bytes == mine.bytes && std::equal(mine.data, mine.data + mine.bytes, first.data);
    if (equal || is_about_the_file(key)) continue;
    return fail(fmt::format("key '{}' is {} here, but {} in an earlier shard of {}", printable(key, kShownChars),
                            out.value_text(mine, 40), out.value_text(first, 40), out.path()),
                "the shards are not from one model: download all of them again");
  }
  return {};
}

Result<Gguf> Gguf::load(std::vector<Shard> shards) {
  Gguf out;
  out.shards_ = std::move(shards);
  const int n = out.n_shards();
  std::optional<uint64_t> n_tensors;
  for (int i = 0; i < n; ++i) {
    const Shard& shard = out.shards_[static_cast<size_t>(i)];
    Loader loader{.out = out, .shard = i, .path = shard.path, .bytes = shard.bytes};
    RETURN_IF_ERROR(loader.run());
    RETURN_IF_ERROR(loader.check_split(n));
    RETURN_IF_ERROR(loader.merge_keys());
    if (loader.own_number("split.count").value_or(0) > 0 && !n_tensors)
      n_tensors = loader.own_number("split.tensors.count");
  }
  if (n_tensors && *n_tensors != out.tensors_.size()) {
    return Status{Code::corrupt,
                  fmt::format("{}: key 'split.tensors.count' is {}, but {} {} tensors", out.path(), *n_tensors,
                              n == 1 ? "the file has" : fmt::format("the {} shards have", n), out.tensors_.size()),
                  "the shards are not from one model: download all of them again"};
  }
  return out;
}

Result<Gguf> Gguf::open(const std::string& path) {
  const ShardName name = parse_shard_name(path).value_or(ShardName{});
  std::vector<Shard> shards;
  for (int i = 0; i < name.count; ++i) {
    const std::string shard_path = name.prefix.empty() ? path : name.path(i);
    auto file = MappedFile::open(shard_path);
    if (!file.ok() && file.status().code() == Code::not_found && shard_path != path) {
      return Status{Code::not_found,
                    fmt::format("{}: shard {} of {} is missing: {}", path, i + 1, name.count, shard_path),
                    "keep all shards in one directory"};
    }
    RETURN_IF_ERROR(file.status());
    const auto bytes = (*file)->bytes();
    shards.push_back({shard_path, std::move(file).value(), bytes});
  }
  return load(std::move(shards));
}

Result<Gguf> Gguf::parse(std::vector<GgufBytes> shards) {
  CHECK(!shards.empty(), "nothing to parse");
  std::vector<Shard> list;
  for (GgufBytes& shard : shards) list.push_back({std::move(shard.name), nullptr, shard.bytes});
  return load(std::move(list));
}

std::vector<std::string_view> Gguf::keys() const {
  return key_order_;
}

const GgufTensor* Gguf::find_tensor(std::string_view name) const {
  const auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

std::string Gguf::file_name() const {
  return file_name_of(path());
}

const MappedFile& Gguf::shard(int i) const {
  const Shard& shard = shards_.at(static_cast<size_t>(i));
  CHECK(shard.file != nullptr, "{} was parsed from memory", shard.path);
  return *shard.file;
}

uint64_t Gguf::file_bytes() const {
  uint64_t total = 0;
  for (const Shard& shard : shards_) total += shard.bytes.size();
  return total;
}

Status Gguf::unchanged() const {
  for (const Shard& shard : shards_) {
    if (shard.file != nullptr) RETURN_IF_ERROR(shard.file->unchanged());
  }
  return {};
}

}  // namespace strata
