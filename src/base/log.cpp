#include "base/log.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "base/units.h"

namespace strata {
namespace {

constexpr double kInPlaceInterval = 0.1, kLineInterval = 2.0;  // seconds between two progress lines
constexpr double kRateAfter = 0.5;                             // seconds before a rate is worth showing

std::string amount(uint64_t n, const std::string& unit) {
  return unit == "byte" ? format_bytes(n) : plural(n, unit.c_str());
}

std::string speed(double per_second, const std::string& unit) {
  if (unit == "byte") return format_bytes(static_cast<uint64_t>(per_second)) + "/s";
  if (unit == "token") return format_rate(per_second, "tok/s");
  return format_rate(per_second, (unit + "s/s").c_str());
}

}  // namespace

std::string progress_text(const Progress& p) {
  std::string text = p.what + ":";
  if (!p.unit.empty()) {
    if (p.total == 0)
      text += fmt::format(" {}", amount(p.done, p.unit));
    else
      text += fmt::format(" {} of {}", p.unit == "byte" ? format_bytes(p.done) : format_count(p.done),
                          amount(p.total, p.unit));
  }
  if (p.total > 0) {
    const auto percent = static_cast<int>(100.0 * static_cast<double>(p.done) / static_cast<double>(p.total));
    text += p.unit.empty() ? fmt::format(" {}%", percent) : fmt::format(" ({}%)", percent);
  }
  if (p.done > 0 && p.elapsed_s >= kRateAfter) {
    const double rate = static_cast<double>(p.done) / p.elapsed_s;
    if (!p.unit.empty()) text += fmt::format(", {}", speed(rate, p.unit));
    if (p.total > p.done)
      text += fmt::format(", {} left", format_duration(static_cast<double>(p.total - p.done) / rate));
  }
  if (!p.extra.empty()) text += fmt::format(", {}", p.extra);
  return text;
}

Log::Log(Writer write, Clock clock, bool in_place, size_t columns)
    : write_(std::move(write)), clock_(std::move(clock)), in_place_(in_place), columns_(columns) {}

void Log::info(const std::string& text) {
  line(text);
}
void Log::warning(const std::string& text) {
  line("warning: " + text);
}
void Log::error(const Status& status) {
  line(status.text());
}

void Log::stream(std::string_view piece) {
  if (piece.empty()) return;
  end_progress();
  mid_line_ = !piece.ends_with('\n');
  write_(piece);
}

void Log::end_stream() {
  if (mid_line_) write_("\n");
  mid_line_ = false;
}

void Log::line(const std::string& text) {
  end_stream();
  std::string out = shown_ ? "\r\x1b[K" : "";
  shown_ = false;
  out += "strata: " + one_line(text, std::numeric_limits<size_t>::max()) + "\n";
  write_(out);
}

void Log::progress(const Progress& progress) {
  const double now = clock_();
  if (!started_) {
    started_ = true;
    // Work that ends at once needs no line in a log file.
    due_s_ = in_place_ ? now : now + kLineInterval;
  }
  if (now < due_s_) return;
  due_s_ = now + (in_place_ ? kInPlaceInterval : kLineInterval);
  const std::string text =
      fmt::format("strata: {}", one_line(progress_text(progress), std::numeric_limits<size_t>::max()));
  if (!in_place_) return write_(text + "\n");
  const size_t room = columns_ > 4 ? columns_ - 4 : 0;  // for "..." and the cursor
  write_(fmt::format("\r{}\x1b[K", one_line(text, room)));
  shown_ = true;
}

void Log::end_progress() {
  if (shown_) write_("\r\x1b[K");
  shown_ = started_ = false;
}

}  // namespace strata
