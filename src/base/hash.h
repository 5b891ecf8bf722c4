// One 64-bit hash for checksums and fingerprints: sensitive to every bit and to order, as fast as memory is read. Not a
// defence against somebody who wants two inputs to collide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace strata {

class Hash64 {
 public:
  void add(const void* data, size_t n) {
    const auto* p = static_cast<const unsigned char*>(data);
    for (; n > 0 && n_pending_ > 0; --n) push(*p++);
    for (; n >= 8; n -= 8, p += 8) {
      uint64_t word;
      std::memcpy(&word, p, 8);
      mix(word);
    }
    for (; n > 0; --n) push(*p++);
  }
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void add(const T& value) { add(&value, sizeof value); }
  // The same whatever the pieces were; how many bytes there were counts.
  uint64_t value() const {
    Hash64 last = *this;
    if (last.n_pending_ > 0) last.mix(last.pending_);
    last.mix(n_words_ * 8 + static_cast<uint64_t>(n_pending_));
    return last.hash_;
  }

 private:
  void push(unsigned char byte) {
    pending_ |= static_cast<uint64_t>(byte) << (8 * n_pending_);
    if (++n_pending_ < 8) return;
    mix(pending_);
    pending_ = 0;
    n_pending_ = 0;
  }
  void mix(uint64_t word) {
    hash_ = (hash_ ^ word) * 0x9E3779B97F4A7C15ULL;
    hash_ ^= hash_ >> 29;
    ++n_words_;
  }

  uint64_t hash_ = 0x51AFD7ED558CCD25ULL, pending_ = 0, n_words_ = 0;
  int n_pending_ = 0;
};

}  // namespace strata
