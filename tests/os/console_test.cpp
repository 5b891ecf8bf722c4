#include "os/console.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>

namespace strata {
namespace {

// Puts another file in the place of standard output for a while.
class Redirected {
 public:
  explicit Redirected(int fd) : saved_(dup(1)) { dup2(fd, 1); }
  ~Redirected() {
    dup2(saved_, 1);
    close(saved_);
  }

 private:
  int saved_;
};

TEST(Console, WritesAllOfATextToAPipe) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  Status status;
  {
    Redirected r(ends[1]);
    status = write_stream(Stream::out, "two\nlines");
  }
  close(ends[1]);
  std::array<char, 64> got{};
  EXPECT_EQ(read(ends[0], got.data(), got.size()), 9);
  close(ends[0]);
  EXPECT_TRUE(status.ok());
  EXPECT_STREQ(got.data(), "two\nlines");
}

TEST(Console, AReaderThatLeftIsAnErrorAndNotASignal) {
  prepare_streams();
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  close(ends[0]);
  Status status;
  {
    Redirected r(ends[1]);
    status = write_stream(Stream::out, "x");
  }
  close(ends[1]);
  EXPECT_EQ(status.text(), "standard output: its reader has gone away");
}

TEST(Console, AFullDiskIsNamed) {
  const int full = open("/dev/full", O_WRONLY);
  if (full < 0) GTEST_SKIP() << "absent: no /dev/full";
  Status status;
  {
    Redirected r(full);
    status = write_stream(Stream::out, "x");
  }
  close(full);
  EXPECT_NE(status.text().find("cannot write to standard output: No space left"), std::string::npos) << status.text();
}

TEST(Console, AClosedStreamIsFilledButStaysUnusable) {
  const int saved = dup(1);
  close(1);
  prepare_streams();
  const bool filled = fcntl(1, F_GETFD) != -1;
  const Status status = write_stream(Stream::out, "x");
  dup2(saved, 1);
  close(saved);
  EXPECT_TRUE(filled);
  EXPECT_EQ(status.text(), "standard output is closed");
}

TEST(Console, TheFirstInterruptOnlySetsTheFlagAndTheNextOneActs) {
  EXPECT_FALSE(interrupted().load());
  catch_interrupts();
  std::raise(SIGINT);
  EXPECT_TRUE(interrupted().load());
  struct sigaction now {};
  sigaction(SIGINT, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
}

TEST(Console, APipeIsNoTerminalAndHasTheUsualWidth) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  bool terminal = true;
  size_t columns = 0;
  {
    Redirected r(ends[1]);
    terminal = is_terminal(Stream::out);
    columns = terminal_columns(Stream::out);
  }
  close(ends[0]);
  close(ends[1]);
  EXPECT_FALSE(terminal);
  EXPECT_EQ(columns, 80u);
}

TEST(Console, TheClockNeverGoesBack) {
  const double a = steady_seconds();
  EXPECT_GE(steady_seconds(), a);
}

}  // namespace
}  // namespace strata
