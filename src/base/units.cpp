#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/utf8.h"

namespace strata {
namespace {

// Three significant digits, none after the point from 100 on.
std::string three_digits(double x) {
  if (x >= 99.95) return format_count(static_cast<uint64_t>(std::llround(std::min(x, 9e18))));
  if (x >= 9.995) return fmt::format("{:.1f}", x);
  return fmt::format("{:.2f}", x);
}

}  // namespace

std::string format_count(uint64_t n) {
  std::string digits = std::to_string(n);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string format_bytes(uint64_t bytes) {
  static constexpr std::array kUnits = {"kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return plural(bytes, "byte");
  double x = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  for (; x >= 999.5 && unit + 1 < kUnits.size(); ++unit) x /= 1000;
  return fmt::format("{} {}", three_digits(x), kUnits[unit]);
}

std::string format_duration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "unknown time";
  if (seconds < 9.95) return fmt::format("{:.{}f} s", seconds, seconds < 0.995 ? 2 : 1);
  const auto s = static_cast<uint64_t>(std::llround(seconds));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s % 3600 / 60);
}

std::string format_rate(double per_second, const char* unit) {
  const bool sane = per_second >= 0 && std::isfinite(per_second);
  return fmt::format("{} {}", sane ? three_digits(per_second) : "?", unit);
}

std::string plural(uint64_t n, const char* singular) {
  return fmt::format("{} {}{}", format_count(n), singular, n == 1 ? "" : "s");
}

std::string one_line(const std::string& text, size_t max_chars) {
  std::string out;
  size_t chars = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t n = utf8_length(text, i);
    if (chars == max_chars) return out + "...";
    const auto c = static_cast<unsigned char>(text[i]);
    if (n == 0) {
      out += "\xEF\xBF\xBD";
    } else if (c < 0x20 || c == 0x7F || (n == 2 && c == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0)) {
      out += ' ';
    } else {
      out.append(text, i, n);
    }
    i += std::max<size_t>(n, 1);
    ++chars;
  }
  return out;
}

}  // namespace strata
