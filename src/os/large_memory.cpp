#include "os/large_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/units.h"

namespace strata {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;

// "7f12-7f34 rw-p ...": the addresses of a map.
bool read_range(std::string_view line, size_t& first, size_t& end) {
  const char* stop = line.data() + line.size();
  const auto a = std::from_chars(line.data(), stop, first, 16);
  if (a.ec != std::errc() || a.ptr == stop || *a.ptr != '-') return false;
  return std::from_chars(a.ptr + 1, stop, end, 16).ec == std::errc();
}

}  // namespace

Result<LargeMemory> LargeMemory::map(size_t bytes, const std::string& purpose) {
  LargeMemory m;
  void* at = MAP_FAILED;
  if (bytes > 0 && bytes <= std::numeric_limits<size_t>::max() / 2) {
    m.mapped_bytes_ = (bytes + kLargePage - 1) / kLargePage * kLargePage + kLargePage;
    at = ::mmap(nullptr, m.mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (at == MAP_FAILED) {
    return Status(Code::out_of_memory, fmt::format("{}: the system gave no {}", purpose, format_bytes(bytes)),
                  "close other programs");
  }
  m.mapped_ = at;
  const auto address = reinterpret_cast<uintptr_t>(at);
  m.data_ = reinterpret_cast<std::byte*>((address + kLargePage - 1) / kLargePage * kLargePage);
  m.bytes_ = bytes;
#ifdef MADV_HUGEPAGE
  ::madvise(m.data_, m.mapped_bytes_ - kLargePage, MADV_HUGEPAGE);  // a wish; large_share tells what came of it
#endif
  return m;
}

LargeMemory::~LargeMemory() {
  if (mapped_ != nullptr) ::munmap(mapped_, mapped_bytes_);
}

LargeMemory::LargeMemory(LargeMemory&& other) noexcept {
  *this = std::move(other);
}

LargeMemory& LargeMemory::operator=(LargeMemory&& other) noexcept {
  std::swap(mapped_, other.mapped_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

double LargeMemory::large_share() const {
  std::ifstream file("/proc/self/smaps", std::ios::binary);
  std::ostringstream maps;
  maps << file.rdbuf();
  const auto first = reinterpret_cast<uintptr_t>(data_);
  return large_page_share(maps.str(), first, first + bytes_);
}

double large_page_share(const std::string& maps, size_t first, size_t end) {
  constexpr std::string_view kKey = "AnonHugePages:";
  std::istringstream lines(maps);
  size_t large = 0;
  bool ours = false;
  for (std::string line; std::getline(lines, line);) {
    size_t from = 0, to = 0, kib = 0;
    if (read_range(line, from, to)) ours = from < end && to > first;
    if (!ours || !line.starts_with(kKey)) continue;
    const size_t digits = std::min(line.find_first_not_of(' ', kKey.size()), line.size());
    std::from_chars(line.data() + digits, line.data() + line.size(), kib);
    large += std::min(kib, std::numeric_limits<size_t>::max() / 2048) * 1024;
  }
  return end > first ? std::min(1.0, static_cast<double>(large) / static_cast<double>(end - first)) : 0;
}

}  // namespace strata
