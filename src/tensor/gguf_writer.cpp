#include "tensor/gguf_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <future>
#include <memory>
#include <utility>

namespace strata {
namespace {

constexpr size_t kChunkBytes = size_t{16} << 20;

template <class T>
void append(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_string(std::string* out, std::string_view text) {
  append<uint64_t>(out, text.size());
  *out += text;
}

void append_key(std::string* out, std::string_view key, GgufType type) {
  append_string(out, key);
  append(out, static_cast<uint32_t>(type));
}

uint64_t padding_after(uint64_t bytes, uint64_t alignment) {
  return (alignment - bytes % alignment) % alignment;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::string gguf_shard_path(const std::string& prefix, int shard, int n_shards) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, shard + 1, n_shards);
}

void GgufWriter::fail(std::string message) {
  if (mistake_.ok()) mistake_ = {Code::invalid_argument, std::move(message)};
}

void GgufWriter::put(std::string_view key, GgufType type, bool is_array, uint64_t count, std::string_view bytes) {
  const std::string what = fmt::format("key '{}'", printable(key, 100));
  if (const Status name = check_gguf_name(key); !name.ok()) return fail(what + ": " + name.message());
  if (!key_names_.emplace(key).second) return fail(what + " was set twice");
  if (key == "general.alignment") {
    uint32_t alignment = 0;
    if (type == GgufType::u32 && !is_array) std::memcpy(&alignment, bytes.data(), sizeof alignment);
    if (!std::has_single_bit(alignment) || alignment < kGgufMinAlignment || alignment > kGgufMaxAlignment) {
      return fail(
          fmt::format("{}: expected a u32 power of two from {} to {}", what, kGgufMinAlignment, kGgufMaxAlignment));
    }
    alignment_ = alignment;
  }
  append_key(&keys_, key, is_array ? GgufType::array : type);
  if (is_array) {
    append(&keys_, static_cast<uint32_t>(type));
    append(&keys_, count);
  }
  keys_ += bytes;
  ++n_keys_;
}

void GgufWriter::set_string(std::string_view key, std::string_view value) {
  std::string bytes;
  append_string(&bytes, value);
  put(key, GgufType::string, false, 1, bytes);
}

void GgufWriter::set_strings(std::string_view key, const std::vector<std::string>& values) {
  std::string bytes;
  for (const std::string& value : values) append_string(&bytes, value);
  put(key, GgufType::string, true, values.size(), bytes);
}

void GgufWriter::copy(std::string_view key, const GgufValue& value) {
  put(key, value.type, value.is_array, value.count, as_text({value.data, value.bytes}));
}

void GgufWriter::add(Tensor tensor) {
  const std::string what = fmt::format("tensor '{}'", printable(tensor.name, 100));
  if (const Status name = check_gguf_name(tensor.name); !name.ok()) return fail(what + ": " + name.message());
  if (!tensor_names_.emplace(tensor.name).second) return fail(what + " was added twice");
  const auto bytes = checked_bytes(tensor.type, tensor.shape);
  if (!bytes.ok()) return fail(what + ": " + bytes.status().message());
  tensor.bytes = *bytes;
  if (!tensor.fill && tensor.data.size() != tensor.bytes) {
    return fail(fmt::format("{} ({}, {}) has {} bytes, expected {}", what, type_name(tensor.type), tensor.shape.text(),
                            tensor.data.size(), tensor.bytes));
  }
  tensors_.push_back(std::move(tensor));
}

void GgufWriter::add_tensor(std::string_view name, DType type, const Shape& shape, std::span<const std::byte> bytes,
                            int shard) {
  add({std::string(name), type, shape, 0, bytes, nullptr, shard});
}

void GgufWriter::add_tensor(std::string_view name, DType type, const Shape& shape, GgufFill fill, int shard) {
  CHECK(fill != nullptr, "tensor {} has nothing to fill it", name);
  add({std::string(name), type, shape, 0, {}, std::move(fill), shard});
}

Status GgufWriter::check_shards(int n_shards) const {
  RETURN_IF_ERROR(mistake_);
  if (n_shards < 1 || n_shards > 65535) {
    return {Code::invalid_argument, fmt::format("{} shards, expected 1 to 65535", n_shards)};
  }
  for (const Tensor& tensor : tensors_) {
    if (tensor.shard >= 0 && tensor.shard < n_shards) continue;
    return {Code::invalid_argument, fmt::format("tensor '{}' is for shard {}, but there are {}",
                                                printable(tensor.name, 100), tensor.shard, n_shards)};
  }
  for (const char* key : {"split.no", "split.count", "split.tensors.count"}) {
    if (key_names_.contains(key)) {
      return {Code::invalid_argument, fmt::format("key '{}' is written with the shards and cannot be set", key)};
    }
  }
  return {};
}

// Everything before the data, padded. n_shards is 0 for a file that is no shard.
std::string GgufWriter::header(int shard, int n_shards) const {
  const bool has_keys = shard == 0;
  std::string infos;
  uint64_t n_tensors = 0, offset = 0;
  for (const Tensor& tensor : tensors_) {
    if (n_shards > 0 && tensor.shard != shard) continue;
    append_string(&infos, tensor.name);
    append(&infos, static_cast<uint32_t>(tensor.shape.n_dims));
    for (int i = 0; i < tensor.shape.n_dims; ++i) append(&infos, tensor.shape.ne[static_cast<size_t>(i)]);
    append(&infos, static_cast<uint32_t>(tensor.type));
    append(&infos, offset);
    offset += tensor.bytes + padding_after(tensor.bytes, alignment_);
    ++n_tensors;
  }
  std::string extra;
  uint64_t n_extra = 0;
  if (n_shards > 0) {
    append_key(&extra, "split.no", GgufType::u16);
    append(&extra, static_cast<uint16_t>(shard));
    append_key(&extra, "split.count", GgufType::u16);
    append(&extra, static_cast<uint16_t>(n_shards));
    append_key(&extra, "split.tensors.count", GgufType::i32);
    append(&extra, static_cast<int32_t>(tensors_.size()));
    n_extra = 3;
  }
  if (!has_keys && alignment_ != 32) {
    append_key(&extra, "general.alignment", GgufType::u32);
    append(&extra, static_cast<uint32_t>(alignment_));
    ++n_extra;
  }
  std::string out = "GGUF";
  append<uint32_t>(&out, 3);
  append(&out, n_tensors);
  append(&out, (has_keys ? n_keys_ : 0) + n_extra);
  if (has_keys) out += keys_;
  out += extra;
  out += infos;
  out.append(padding_after(out.size(), alignment_), '\0');
  return out;
}

// One chunk is written while the next one is filled.
Status GgufWriter::emit_chunks(const Tensor& tensor, const Sink& sink) const {
  const auto block = static_cast<size_t>(traits(tensor.type).block_bytes);
  const size_t step = std::min(kChunkBytes / block * block, tensor.bytes);
  std::array<std::vector<std::byte>, 2> chunks;
  std::future<Status> writing;
  Status filled;
  for (size_t at = 0, turn = 0; at < tensor.bytes && filled.ok(); at += step, turn ^= 1) {
    std::vector<std::byte>& chunk = chunks[turn];
    chunk.assign(std::min(step, tensor.bytes - at), std::byte{0});
    filled = tensor.fill(at, chunk);
    if (writing.valid()) RETURN_IF_ERROR(writing.get());
    // Without a policy: where the system has no thread to give, the chunk is written when its result is asked for.
    if (filled.ok()) writing = std::async([&sink, &chunk] { return sink(as_text(chunk)); });
  }
  if (writing.valid()) RETURN_IF_ERROR(writing.get());
  return filled.ok() ? filled : filled.within(fmt::format("tensor '{}'", printable(tensor.name, 100)));
}

Status GgufWriter::emit_tensor(const Tensor& tensor, const Sink& sink) const {
  RETURN_IF_ERROR(tensor.fill ? emit_chunks(tensor, sink) : sink(as_text(tensor.data)));
  return sink(std::string(padding_after(tensor.bytes, alignment_), '\0'));
}

Status GgufWriter::emit(int shard, int n_shards, const Sink& sink) const {
  RETURN_IF_ERROR(sink(header(shard, n_shards)));
  for (const Tensor& tensor : tensors_) {
    if (n_shards == 0 || tensor.shard == shard) RETURN_IF_ERROR(emit_tensor(tensor, sink));
  }
  return {};
}

Result<uint64_t> GgufWriter::bytes(int n_shards) const {
  RETURN_IF_ERROR(n_shards == 0 ? mistake_ : check_shards(n_shards));
  uint64_t sum = 0;
  for (int shard = 0; shard < std::max(n_shards, 1); ++shard) sum += header(shard, n_shards).size();
  for (const Tensor& tensor : tensors_) sum += tensor.bytes + padding_after(tensor.bytes, alignment_);
  return sum;
}

Status GgufWriter::write(const std::string& path) const {
  RETURN_IF_ERROR(mistake_);
  ASSIGN_OR_RETURN(const auto file, FileWriter::create(path));
  RETURN_IF_ERROR(emit(0, 0, [&](std::string_view bytes) { return file->append(bytes); }));
  return file->commit();
}

Result<std::vector<std::string>> GgufWriter::write_shards(const std::string& prefix, int n_shards) const {
  RETURN_IF_ERROR(check_shards(n_shards));
  std::vector<std::string> paths;
  std::vector<std::unique_ptr<FileWriter>> files;
  for (int shard = 0; shard < n_shards; ++shard) {
    paths.push_back(gguf_shard_path(prefix, shard, n_shards));
    ASSIGN_OR_RETURN(auto file, FileWriter::create(paths.back()));
    RETURN_IF_ERROR(emit(shard, n_shards, [&](std::string_view bytes) { return file->append(bytes); }));
    files.push_back(std::move(file));
  }
  for (const auto& file : files) RETURN_IF_ERROR(file->commit());
  return paths;
}

Result<std::string> GgufWriter::to_bytes() const {
  RETURN_IF_ERROR(mistake_);
  std::string out;
  RETURN_IF_ERROR(emit(0, 0, [&](std::string_view bytes) {
    out += bytes;
    return Status{};
  }));
  return out;
}

Result<std::vector<std::string>> GgufWriter::shards_to_bytes(int n_shards) const {
  RETURN_IF_ERROR(check_shards(n_shards));
  std::vector<std::string> out(static_cast<size_t>(n_shards));
  for (int shard = 0; shard < n_shards; ++shard) {
    RETURN_IF_ERROR(emit(shard, n_shards, [&](std::string_view bytes) {
      out[static_cast<size_t>(shard)] += bytes;
      return Status{};
    }));
  }
  return out;
}

}  // namespace strata
