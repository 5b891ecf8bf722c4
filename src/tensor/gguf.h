// GGUF version 3 files, one or many shards, memory mapped. Owns the maps; everything handed out points into them.
// Promises: every offset, size, count and type is checked before use; nothing is allocated beyond what the file's own
// size can justify; an error names the file and the key or tensor.
// Layout: https://github.com/ggml-org/ggml (docs/gguf.md).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "os/file.h"
#include "tensor/tensor.h"

namespace strata {

enum class GgufType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
const char* gguf_type_name(GgufType type);
size_t gguf_type_bytes(GgufType type);  // of one value; 0 for strings and arrays

// What general.alignment may be: a power of two in this range. From 8 on, every element type can be read in place.
inline constexpr uint64_t kGgufMinAlignment = 8, kGgufMaxAlignment = 1 << 20;

// A value as it lies in the file; arrays stay undecoded until asked for. Arrays of arrays are refused at open.
struct GgufValue {
  GgufType type = GgufType::u8;  // element type for arrays
  bool is_array = false;
  uint64_t count = 1;
  const std::byte* data = nullptr;  // first element; for strings: the length field of the first; not aligned
  size_t bytes = 0;                 // of all elements together
};

struct GgufTensor {
  std::string_view name;
  DType type = DType::F32;
  Shape shape;
  int shard = 0;
  uint64_t file_offset = 0;  // absolute, inside its shard
  size_t bytes = 0;
  const std::byte* data = nullptr;  // mapped
};

// A shard that is in memory already; `name` stands in messages.
struct GgufBytes {
  std::string name;
  std::span<const std::byte> bytes;
};

// Names of keys and tensors: 1 to 65535 bytes of UTF-8. The failure says only what is wrong with the name.
Status check_gguf_name(std::string_view name);
// Bytes from a file as a person may see them: control characters and broken UTF-8 as \n, \x1b, ...; at most max_chars
// characters, the last three "..." when something was cut.
std::string printable(std::string_view bytes, size_t max_chars);

class Gguf {
 public:
  // Opens `path`; when its name ends in -0000K-of-0000N.gguf, all N shards beside it (any shard may be named).
  // A shard may have no tensors, or only the n-gram table and no architecture key. Keys come from the first shard that
  // has them; a key that describes the model must be equal in all shards that have it.
  static Result<Gguf> open(const std::string& path);
  // The same for all shards in order, from memory that outlives the result.
  static Result<Gguf> parse(std::vector<GgufBytes> shards);

  // Keys. `find` is null when absent; typed getters fail with file, key, expected and actual type.
  const GgufValue* find(std::string_view key) const;
  Result<uint64_t> get_u64(std::string_view key) const;  // any unsigned or non-negative signed integer type
  Result<int64_t> get_int(std::string_view key, int64_t min, int64_t max) const;
  Result<double> get_number(std::string_view key) const;  // f32, f64 (finite) or an integer
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key) const;
  Result<std::vector<uint64_t>> get_u64_array(std::string_view key) const;  // u32, u64, non-negative i32, i64, or bool
  Result<std::vector<int64_t>> get_int_array(std::string_view key) const;   // any integer or bool element type
  Result<std::vector<int32_t>> get_i32_array(std::string_view key) const;   // i32 and nothing else
  Result<std::vector<std::string_view>> get_string_array(std::string_view key) const;
  std::vector<std::string_view> keys() const;                              // in file order
  std::string value_text(const GgufValue& value, size_t max_chars) const;  // for people; long values are cut with "..."

  // Tensors of all shards, in file order.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find_tensor(std::string_view name) const;

  const std::string& path() const { return shards_.front().path; }
  std::string file_name() const;  // without directories: safe to publish
  int n_shards() const { return static_cast<int>(shards_.size()); }
  const MappedFile& shard(int i) const;  // only of files that were opened
  uint64_t file_bytes() const;           // all shards together
  // Still the files that were opened: same size, inode and modification time (a model replaced in use is an error).
  Status unchanged() const;

 private:
  struct Shard {
    std::string path;
    std::unique_ptr<MappedFile> file;  // null when parsed from memory
    std::span<const std::byte> bytes;
  };
  struct Loader;  // parses one shard into this object

  static Result<Gguf> load(std::vector<Shard> shards);
  Result<const GgufValue*> array_of(std::string_view key, const char* expected) const;
  Result<const GgufValue*> scalar_of(std::string_view key, const char* expected) const;
  Status mismatch(std::string_view key, const char* expected, const GgufValue& found) const;

  std::vector<Shard> shards_;
  std::vector<std::string_view> key_order_;
  std::unordered_map<std::string_view, GgufValue> values_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, size_t> tensor_index_;
};

}  // namespace strata
