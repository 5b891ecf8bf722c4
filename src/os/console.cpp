#include "os/console.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

namespace strata {
namespace {

// The one thing a signal handler can reach.
std::atomic<bool> g_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_interrupt(int) {
  g_interrupted.store(true, std::memory_order_relaxed);
}

// A page of a mapped file that cannot be had any more: nothing can go on without it, and only plain calls are allowed
// here.
void on_lost_page(int) {
  constexpr std::string_view kText =
      "strata: a file in use was cut short, or its disk failed; put the whole file back and start again\n";
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, kText.data(), kText.size());
  _exit(3);
}

const char* name_of(Stream stream) {
  return stream == Stream::in ? "standard input" : stream == Stream::out ? "standard output" : "standard error";
}

}  // namespace

void prepare_streams() {
  for (const int fd : {0, 1, 2}) {
    if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free number is taken, which is this one.
    [[maybe_unused]] const int opened = ::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGBUS, on_lost_page);
}

bool is_terminal(Stream stream) {
  return isatty(static_cast<int>(stream)) == 1;
}

size_t terminal_columns(Stream stream) {
  winsize size{};
  if (ioctl(static_cast<int>(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

Status write_stream(Stream stream, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(static_cast<int>(stream), text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<size_t>(n));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EPIPE) return {Code::failed, std::string(name_of(stream)) + ": its reader has gone away"};
    if (errno == EBADF) return {Code::failed, std::string(name_of(stream)) + " is closed"};
    return {Code::failed, std::string("cannot write to ") + name_of(stream) + ": " + std::strerror(errno)};
  }
  return {};
}

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

const std::atomic<bool>& interrupted() {
  return g_interrupted;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace strata
