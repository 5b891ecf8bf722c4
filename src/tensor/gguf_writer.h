// Writes GGUF version 3: keys in the order they were set, tensors in the order they were added, one file or shards.
// The same calls give the same bytes. Tensors come from memory or from a callback that fills one chunk after the other,
// so that a tensor need not fit in memory; the last chunk is written, by another thread, meanwhile. The first mistake
// is kept and returned by the call that writes.
#pragma once

#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "tensor/gguf.h"
#include "tensor/tensor.h"

namespace strata {

// Fills `chunk`, which begins `offset` bytes into the tensor, is zeroed, and is a whole number of the type's blocks.
using GgufFill = std::function<Status(uint64_t offset, std::span<std::byte> chunk)>;

template <class T>
constexpr GgufType gguf_type_of() {
  if constexpr (std::is_same_v<T, uint8_t>) return GgufType::u8;
  if constexpr (std::is_same_v<T, int8_t>) return GgufType::i8;
  if constexpr (std::is_same_v<T, uint16_t>) return GgufType::u16;
  if constexpr (std::is_same_v<T, int16_t>) return GgufType::i16;
  if constexpr (std::is_same_v<T, uint32_t>) return GgufType::u32;
  if constexpr (std::is_same_v<T, int32_t>) return GgufType::i32;
  if constexpr (std::is_same_v<T, float>) return GgufType::f32;
  if constexpr (std::is_same_v<T, bool>) return GgufType::boolean;
  if constexpr (std::is_same_v<T, uint64_t>) return GgufType::u64;
  if constexpr (std::is_same_v<T, int64_t>) return GgufType::i64;
  if constexpr (std::is_same_v<T, double>) return GgufType::f64;
}

// prefix-0000K-of-0000N.gguf, K counting from 1.
std::string gguf_shard_path(const std::string& prefix, int shard, int n_shards);

class GgufWriter {
 public:
  // The type is always named: set<uint32_t>("general.alignment", 64). That key also sets the alignment (32 without it).
  template <class T>
  void set(std::string_view key, std::type_identity_t<T> value) {
    put(key, gguf_type_of<T>(), false, 1, encode<T>({&value, 1}));
  }
  template <class T>
  void set_array(std::string_view key, const std::vector<std::type_identity_t<T>>& values) {
    if constexpr (std::is_same_v<T, bool>) {
      const std::vector<uint8_t> bytes(values.begin(), values.end());
      put(key, GgufType::boolean, true, values.size(), encode<uint8_t>(bytes));
    } else {
      put(key, gguf_type_of<T>(), true, values.size(), encode<T>(values));
    }
  }
  void set_string(std::string_view key, std::string_view value);
  void set_strings(std::string_view key, const std::vector<std::string>& values);
  // A value of another file, as it lies there.
  void copy(std::string_view key, const GgufValue& value);

  // `bytes` must live until the file is written. `shard` counts from 0 and matters only to write_shards.
  void add_tensor(std::string_view name, DType type, const Shape& shape, std::span<const std::byte> bytes,
                  int shard = 0);
  void add_tensor(std::string_view name, DType type, const Shape& shape, GgufFill fill, int shard = 0);

  // The file appears under its name only when it is complete and on the disk.
  Status write(const std::string& path) const;
  // gguf_shard_path of every shard: the keys are in the first one, split.* in all. Gives the paths. All appear under
  // their names when the last one is complete.
  Result<std::vector<std::string>> write_shards(const std::string& prefix, int n_shards) const;
  // How much will be written: n_shards 0 for one file that is no shard.
  Result<uint64_t> bytes(int n_shards) const;
  // The same bytes in memory.
  Result<std::string> to_bytes() const;
  Result<std::vector<std::string>> shards_to_bytes(int n_shards) const;

 private:
  struct Tensor {
    std::string name;
    DType type;
    Shape shape;
    size_t bytes;
    std::span<const std::byte> data;
    GgufFill fill;  // when data is empty
    int shard;
  };
  using Sink = std::function<Status(std::string_view)>;

  template <class T>
  static std::string encode(std::span<const T> values) {
    std::string out(values.size_bytes(), '\0');
    if (!values.empty()) std::memcpy(out.data(), values.data(), values.size_bytes());
    return out;
  }
  void put(std::string_view key, GgufType type, bool is_array, uint64_t count, std::string_view bytes);
  void add(Tensor tensor);
  void fail(std::string message);
  Status check_shards(int n_shards) const;
  std::string header(int shard, int n_shards) const;
  Status emit(int shard, int n_shards, const Sink& sink) const;
  Status emit_chunks(const Tensor& tensor, const Sink& sink) const;
  Status emit_tensor(const Tensor& tensor, const Sink& sink) const;

  Status mistake_;
  std::string keys_;  // encoded
  uint64_t n_keys_ = 0;
  uint64_t alignment_ = 32;
  std::unordered_set<std::string> key_names_, tensor_names_;
  std::vector<Tensor> tensors_;
};

}  // namespace strata
