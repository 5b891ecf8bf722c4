// What a run tells the person who started it: one event a line, and at most one progress line, which rewrites itself in
// place on a terminal and is printed at most every 2 s elsewhere. Where the text goes and what time it is are handed
// in.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace strata {

struct Progress {
  std::string what;              // "reading the prompt"
  uint64_t done = 0, total = 0;  // total 0: unknown
  std::string unit;              // "token"; "byte" is shown as sizes, "" as percent alone
  double elapsed_s = 0;          // spent on `done`
  std::string extra;             // appended as it is
};

// "reading the prompt: 1,024 of 4,096 tokens (25%), 350 tok/s, 9 s left"
std::string progress_text(const Progress& progress);

class Log {
 public:
  using Writer = std::function<void(std::string_view)>;
  using Clock = std::function<double()>;  // seconds, never going back

  // columns: width of the terminal; what is longer is cut while it is rewritten in place.
  Log(Writer write, Clock clock, bool in_place, size_t columns);
  ~Log() { end_progress(); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void info(const std::string& text);
  void warning(const std::string& text);
  void error(const Status& status);

  // Text that comes in pieces; what follows it starts on a line of its own.
  void stream(std::string_view piece);
  void end_stream();

  void progress(const Progress& progress);
  void end_progress();  // takes the line off a terminal
  double now_s() const { return clock_(); }

 private:
  void line(const std::string& text);

  Writer write_;
  Clock clock_;
  bool in_place_;
  size_t columns_;
  bool mid_line_ = false;  // a stream has not ended its line
  bool shown_ = false;     // a progress line stands on the terminal
  bool started_ = false;   // progress since the last end_progress
  double due_s_ = 0;       // no progress before this time
};

}  // namespace strata
