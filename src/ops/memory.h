// Memory of a back end: buffers allocated once at start, copies between them. Host implementation included.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"
#include "tensor/tensor.h"

namespace strata {

inline constexpr int kPageTokens = 64;  // positions in one page of keys and values

// Owned, zeroed, 64-byte aligned. Host pages are not touched until used, so a large reserve costs nothing by itself.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, size_t bytes, Place place, std::shared_ptr<void> owner)
      : data_(static_cast<std::byte*>(data)), bytes_(bytes), place_(place), owner_(std::move(owner)) {}

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Place place() const { return place_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  Place place_ = Place::host;
  std::shared_ptr<void> owner_;
};

class Memory {
 public:
  virtual ~Memory() = default;
  // purpose appears in the error when there is not enough memory.
  virtual Result<Buffer> allocate(size_t bytes, const std::string& purpose) = 0;
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  virtual void zero(void* at, size_t bytes) = 0;
};

class HostMemory final : public Memory {
 public:
  Result<Buffer> allocate(size_t bytes, const std::string& purpose) override;
  void copy(void* to, const void* from, size_t bytes) override;
  void zero(void* at, size_t bytes) override;
};

// Hands out aligned pieces of one buffer; the plan has counted them, so running out is a bug.
class Arena {
 public:
  Arena() = default;
  explicit Arena(Buffer buffer) : buffer_(std::move(buffer)) {}

  static constexpr size_t kAlign = 64;
  static constexpr size_t padded(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

  std::byte* take_bytes(size_t bytes) {
    CHECK(used_ + padded(bytes) <= buffer_.bytes(), "arena: {} of {} bytes used, {} more asked", used_, buffer_.bytes(),
          bytes);
    std::byte* at = buffer_.data() + used_;
    used_ += padded(bytes);
    return at;
  }
  template <class T>
  T* take(size_t count) {
    return reinterpret_cast<T*>(take_bytes(count * sizeof(T)));
  }
  MatF32 matrix(int rows, int cols) {
    return {take<float>(static_cast<size_t>(rows) * static_cast<size_t>(cols)), rows, cols};
  }
  size_t used() const { return used_; }

 private:
  Buffer buffer_;
  size_t used_ = 0;
};

}  // namespace strata
