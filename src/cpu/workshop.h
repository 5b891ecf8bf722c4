// What every CPU operation works with: the pool, the kernels, and scratch memory that was allocated once. An operation
// carves its temporaries from the shared part and each task from the part of its thread; nothing outlives the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/check.h"
#include "cpu/kernels.h"
#include "os/threads.h"
#include "tensor/tensor.h"

namespace strata {

// Hands out aligned pieces of a range. Without memory it only counts, so the same code that carves tells how much it
// needs.
class Carver {
 public:
  Carver() = default;
  Carver(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}

  template <class T>
  T* take(int64_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t at = used_;
    used_ += (static_cast<size_t>(count) * sizeof(T) + kAlign - 1) / kAlign * kAlign;
    if (data_ == nullptr) return nullptr;
    CHECK(used_ <= bytes_, "scratch of {} bytes, {} wanted: larger than the reserved shapes", bytes_, used_);
    return reinterpret_cast<T*>(data_ + at);
  }
  MatF32 matrix(int64_t rows, int64_t cols) {
    return {take<float>(rows * cols), static_cast<int>(rows), static_cast<int>(cols)};
  }
  size_t used() const { return used_; }

 private:
  static constexpr size_t kAlign = 64;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  size_t used_ = 0;
};

struct Workshop {
  WorkerPool& pool;
  const Kernels& kernels;
  std::byte* scratch = nullptr;  // shared part, then one part for each thread
  size_t shared_bytes = 0, thread_bytes = 0;

  Carver shared() const {
    CHECK(scratch != nullptr, "operations before reserve");
    return {scratch, shared_bytes};
  }
  Carver of_thread(int thread) const {
    CHECK(scratch != nullptr, "operations before reserve");
    return {scratch + shared_bytes + static_cast<size_t>(thread) * thread_bytes, thread_bytes};
  }

  // fn(row, thread) for each row, on several threads when there are more than `grain` rows.
  template <class F>
  void each_row(int rows, int grain, F&& fn) const {
    pool.parallel_for(rows, grain, [&](int first, int last, int thread) {
      for (int r = first; r < last; ++r) fn(r, thread);
    });
  }
};

}  // namespace strata
