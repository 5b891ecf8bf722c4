// GGUF bytes put together by hand, right or wrong, and a reader that touches everything a parsed file offers.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/gguf.h"

namespace strata {

template <class T>
std::string le(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
inline std::string str(std::string_view text) {
  return le<uint64_t>(text.size()) + std::string(text);
}

// Value types and tensor types as numbers, because tests need wrong ones too.
enum : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

struct Craft {
  std::string keys, tensors, data;
  uint64_t n_keys = 0, n_tensors = 0;
  uint32_t version = 3;

  Craft& key(std::string_view name, uint32_t type, const std::string& value) {
    keys += str(name) + le(type) + value;
    ++n_keys;
    return *this;
  }
  Craft& array(std::string_view name, uint32_t type, uint64_t count, const std::string& values) {
    return key(name, kArray, le(type) + le(count) + values);
  }
  Craft& tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    tensors += str(name) + le(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) tensors += le(dim);
    tensors += le(type) + le(offset);
    ++n_tensors;
    return *this;
  }
  Craft& content(size_t bytes) {
    data.assign(bytes, '\x11');
    return *this;
  }
  // Header, padding to `alignment`, data.
  std::string bytes(size_t alignment = 32) const {
    std::string out = "GGUF";
    out += le(version) + le(n_tensors) + le(n_keys) + keys + tensors;
    out.append((alignment - out.size() % alignment) % alignment, '\0');
    return out + data;
  }
};

// Reads every value in every way and the ends of every tensor; what it adds up to says nothing.
inline uint64_t touch_everything(const Gguf& file) {
  uint64_t sum = file.file_bytes();
  for (const std::string_view key : file.keys()) {
    sum += file.get_u64(key).ok() + file.get_int(key, -5, 5).ok() + file.get_number(key).ok() + file.get_bool(key).ok();
    sum += file.get_u64_array(key).ok() + file.get_int_array(key).ok() + file.get_i32_array(key).ok();
    if (const auto text = file.get_string(key); text.ok()) sum += printable(*text, 1000).size();
    if (const auto list = file.get_string_array(key); list.ok()) {
      for (const std::string_view text : *list) sum += text.empty() ? 0 : static_cast<unsigned char>(text.back());
    }
    sum += file.value_text(*file.find(key), 1000).size();
  }
  for (const GgufTensor& tensor : file.tensors()) {
    sum += static_cast<uint64_t>(tensor.data[0]) + static_cast<uint64_t>(tensor.data[tensor.bytes - 1]);
    sum += file.find_tensor(tensor.name) == &tensor;
  }
  return sum;
}

// The outcome of parsing exactly these bytes, on the heap without a byte to spare.
inline Status parse_status(std::string_view bytes) {
  const std::unique_ptr<std::byte[]> exact(new std::byte[bytes.size()]);
  if (!bytes.empty()) std::memcpy(exact.get(), bytes.data(), bytes.size());
  const auto file = Gguf::parse({{"m.gguf", {exact.get(), bytes.size()}}});
  if (file.ok()) touch_everything(*file);
  return file.status();
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace strata
