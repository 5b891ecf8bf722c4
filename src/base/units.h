// Numbers for people: bytes, durations, rates and counts, each in the shortest form that still says enough.
#pragma once

#include <cstdint>
#include <string>

namespace strata {

std::string format_count(uint64_t n);                          // "248,320"
std::string format_bytes(uint64_t bytes);                      // decimal, three digits: "51.9 MB", "812 bytes"
std::string format_duration(double seconds);                   // "0.42 s", "12 s", "3 min 05 s", "2 h 07 min"
std::string format_rate(double per_second, const char* unit);  // "1,240 tok/s", "12.3 tok/s", "0.57 GB/s"
std::string plural(uint64_t n, const char* singular);          // "1 token", "2,048 tokens"

// One line whatever the text holds: control characters become spaces, invalid UTF-8 becomes U+FFFD, and what is longer
// than max_chars code points ends in "...".
std::string one_line(const std::string& text, size_t max_chars);

}  // namespace strata
