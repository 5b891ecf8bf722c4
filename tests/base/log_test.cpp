#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace strata {
namespace {

struct Screen {
  double now = 100;
  std::vector<std::string> written;
  Log log;

  explicit Screen(bool in_place, size_t columns = 80)
      : log([this](std::string_view text) { written.emplace_back(text); }, [this] { return now; }, in_place, columns) {}
  std::string all() const {
    std::string text;
    for (const std::string& w : written) text += w;
    return text;
  }
};

Progress reading(uint64_t done, double elapsed_s) {
  return {"reading", done, 400, "token", elapsed_s, ""};
}

TEST(Log, EachEventIsOneLineWhateverItsTextHolds) {
  Screen s(false);
  s.log.info("loaded");
  s.log.warning("slow\ndisk");
  s.log.error(Status(Code::io, "x.gguf: no such file", "give another"));
  EXPECT_EQ(s.all(), "strata: loaded\nstrata: warning: slow disk\nstrata: x.gguf: no such file; give another\n");
}

TEST(Log, ProgressTextHasAmountRateAndTimeLeft) {
  EXPECT_EQ(progress_text({"reading the prompt", 1024, 4096, "token", 2.0, ""}),
            "reading the prompt: 1,024 of 4,096 tokens (25%), 512 tok/s, 6.0 s left");
  EXPECT_EQ(progress_text({"scoring", 1500000, 3000000, "byte", 10, "perplexity 5.9"}),
            "scoring: 1.50 MB of 3.00 MB (50%), 150 kB/s, 10 s left, perplexity 5.9");
  EXPECT_EQ(progress_text({"loading", 450, 1000, "", 1, ""}), "loading: 45%, 1.2 s left");
  EXPECT_EQ(progress_text({"counting", 7, 0, "token", 1, ""}), "counting: 7 tokens, 7.00 tok/s");
}

TEST(Log, ProgressTextGivesNoRateBeforeItMeansSomething) {
  EXPECT_EQ(progress_text({"reading", 0, 10, "token", 5, ""}), "reading: 0 of 10 tokens (0%)");
  EXPECT_EQ(progress_text({"reading", 5, 10, "token", 0.1, ""}), "reading: 5 of 10 tokens (50%)");
  EXPECT_EQ(progress_text({"reading", 10, 10, "token", 2, ""}), "reading: 10 of 10 tokens (100%), 5.00 tok/s");
}

TEST(Log, OutsideATerminalProgressComesAtMostEveryTwoSecondsAndNotForShortWork) {
  Screen s(false);
  for (int i = 0; i <= 40; ++i, s.now += 0.125) s.log.progress(reading(static_cast<uint64_t>(i), 0.125 * i));
  ASSERT_EQ(s.written.size(), 2u);
  EXPECT_EQ(s.written[0], "strata: reading: 16 of 400 tokens (4%), 8.00 tok/s, 48 s left\n");
  s.log.end_progress();
  s.log.progress(reading(1, 0));  // new work: quiet again for two seconds
  EXPECT_EQ(s.written.size(), 2u);
}

TEST(Log, OnATerminalProgressRewritesOneLineAndALogLineTakesItsPlace) {
  Screen s(true);
  s.log.progress(reading(1, 0));
  EXPECT_EQ(s.all(), "\rstrata: reading: 1 of 400 tokens (0%)\x1b[K");
  s.written.clear();
  s.now += 0.05;
  s.log.progress(reading(2, 0));  // too soon
  EXPECT_EQ(s.all(), "");
  s.log.info("done");
  EXPECT_EQ(s.all(), "\r\x1b[Kstrata: done\n");
  s.written.clear();
  s.log.end_progress();
  EXPECT_EQ(s.all(), "");
}

TEST(Log, ALineRewrittenInPlaceFitsTheTerminal) {
  Screen s(true, 19);
  s.log.progress(reading(100, 10));
  EXPECT_EQ(s.all(), "\rstrata: reading...\x1b[K");
}

TEST(Log, AStreamIsFollowedByANewLine) {
  Screen s(false);
  s.log.stream("thinking");
  s.log.stream(" aloud");
  s.log.stream("");
  s.log.info("done");
  s.log.stream("again\n");
  s.log.end_stream();
  s.log.info("end");
  EXPECT_EQ(s.all(), "thinking aloud\nstrata: done\nagain\nstrata: end\n");
}

TEST(Log, TheProgressLineIsGoneWhenTheLogGoes) {
  std::string text;
  {
    Log log([&](std::string_view t) { text += t; }, [] { return 0.0; }, true, 80);
    log.progress(reading(1, 0));
  }
  EXPECT_TRUE(text.ends_with("\r\x1b[K"));
}

}  // namespace
}  // namespace strata
