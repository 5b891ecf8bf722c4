#include "ops/memory.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace strata {

Result<Buffer> HostMemory::allocate(size_t bytes, const std::string& purpose) {
  // calloc maps fresh zero pages for large sizes, which stay untouched until written; alignment is made by hand.
  void* raw = bytes <= SIZE_MAX - Arena::kAlign ? std::calloc(bytes + Arena::kAlign, 1) : nullptr;
  if (raw == nullptr) {
    return Status(Code::out_of_memory, fmt::format("{}: {} MiB of memory could not be allocated", purpose, bytes >> 20),
                  "lower --max-context or close other programs");
  }
  const auto address = reinterpret_cast<uintptr_t>(raw);
  void* aligned = reinterpret_cast<void*>((address + Arena::kAlign - 1) / Arena::kAlign * Arena::kAlign);
  return Buffer(aligned, bytes, Place::host, std::shared_ptr<void>(raw, [](void* p) { std::free(p); }));
}

void HostMemory::copy(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}

void HostMemory::zero(void* at, size_t bytes) {
  std::memset(at, 0, bytes);
}

}  // namespace strata
