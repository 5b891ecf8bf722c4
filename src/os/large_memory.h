// A large stretch of memory, in large pages where the system gives them: what is read once through then waits for
// memory alone, not for tables of pages.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace strata {

class LargeMemory {
 public:
  // Zeroed, and not there until it is written. purpose appears in the error.
  static Result<LargeMemory> map(size_t bytes, const std::string& purpose);
  LargeMemory() = default;
  ~LargeMemory();
  LargeMemory(LargeMemory&& other) noexcept;
  LargeMemory& operator=(LargeMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // Which part of it lies in large pages now, 0 to 1; 0 where the system does not say.
  double large_share() const;

 private:
  void* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::byte* data_ = nullptr;  // at the start of a large page
  size_t bytes_ = 0;
};

// The same from the text of the system's list of maps; first and end are addresses.
double large_page_share(const std::string& maps, size_t first, size_t end);

}  // namespace strata
