// The three standard streams, the interrupt key and a clock, as a command needs them.
#pragma once

#include <atomic>
#include <cstddef>
#include <string_view>

#include "base/result.h"

namespace strata {

enum class Stream : int { in = 0, out = 1, err = 2 };

// Call first. Streams that were closed are opened on /dev/null, so that no model file takes their number: reading and
// writing them still fails. A reader that goes away, and a file beyond the limit of sizes, give an error in place of a
// signal. A mapped file that is cut short while it is in use ends the process with a line that says so.
void prepare_streams();

bool is_terminal(Stream stream);
size_t terminal_columns(Stream stream);  // 80 when it does not say

// All of `text`, at once; the error says what happened to the stream.
Status write_stream(Stream stream, std::string_view text);

// From now on the first interrupt (Ctrl-C) or request to end only sets the flag; a second one ends the process.
void catch_interrupts();
const std::atomic<bool>& interrupted();

double steady_seconds();  // never goes back

}  // namespace strata
