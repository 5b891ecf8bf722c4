#include "os/threads.h"

#include <sched.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>

namespace strata {
namespace {

TEST(WorkerPool, RunsEveryTaskExactlyOnce) {
  for (const int n_threads : {1, 2, 3, 8}) {
    WorkerPool pool(n_threads);
    for (const int n_tasks : {0, 1, 2, 7, 1000}) {
      std::vector<int> runs(static_cast<size_t>(n_tasks), 0);
      pool.run(n_tasks, [&](int task, int thread) {
        EXPECT_GE(thread, 0);
        EXPECT_LT(thread, pool.n_threads());
        ++runs[static_cast<size_t>(task)];
      });
      EXPECT_EQ(runs, std::vector<int>(static_cast<size_t>(n_tasks), 1)) << n_threads << " threads";
    }
  }
}

TEST(WorkerPool, CountsTheCallerAsOneThread) {
  EXPECT_EQ(WorkerPool(1).n_threads(), 1);
  EXPECT_EQ(WorkerPool(3).n_threads(), 3);
  EXPECT_EQ(WorkerPool(0).n_threads(), 1);
  EXPECT_EQ(WorkerPool(-4).n_threads(), 1);
  WorkerPool pool(1);
  const std::thread::id caller = std::this_thread::get_id();
  pool.run(3, [&](int, int thread) {
    EXPECT_EQ(thread, 0);
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
}

TEST(WorkerPool, GivesOneThreadNumberToOneThreadAtATime) {
  WorkerPool pool(4);
  std::vector<std::atomic<int>> inside(4);
  for (int job = 0; job < 200; ++job) {
    pool.run(16, [&](int, int thread) {
      EXPECT_EQ(inside[static_cast<size_t>(thread)].fetch_add(1), 0);
      inside[static_cast<size_t>(thread)].fetch_sub(1);
    });
  }
}

TEST(WorkerPool, ShowsTheWorkOfAllThreadsToTheNextJob) {
  WorkerPool pool(3);
  std::vector<int> values(64, 0);
  for (int job = 1; job <= 5000; ++job) {
    // Each task reads what another task wrote in the job before: a missing barrier is a wrong sum, or a race.
    std::vector<int> next(64, 0);
    pool.run(
        64, [&](int task, int) { next[static_cast<size_t>(task)] = values[static_cast<size_t>((task + 1) % 64)] + 1; });
    values = next;
  }
  EXPECT_EQ(values, std::vector<int>(64, 5000));
}

TEST(WorkerPool, CoversARangeOnceWithPiecesAtMultiplesOfTheGrain) {
  WorkerPool pool(3);
  for (const int n : {0, 1, 15, 16, 17, 100}) {
    std::vector<int> seen(static_cast<size_t>(n), 0);
    pool.parallel_for(n, 16, [&](int first, int last, int) {
      EXPECT_EQ(first % 16, 0);
      EXPECT_LT(first, last);
      EXPECT_LE(last - first, 16);
      for (int i = first; i < last; ++i) ++seen[static_cast<size_t>(i)];
    });
    EXPECT_EQ(seen, std::vector<int>(static_cast<size_t>(n), 1));
  }
}

TEST(WorkerPool, ReachesTheEndOfTheLargestRange) {
  WorkerPool pool(2);
  std::atomic<int> last_seen{0};
  pool.parallel_for(INT32_MAX, 1 << 30, [&](int, int last, int) {
    int seen = last_seen.load();
    while (last > seen && !last_seen.compare_exchange_weak(seen, last)) {
    }
  });
  EXPECT_EQ(last_seen.load(), INT32_MAX);
}

TEST(WorkerPool, WakesWorkersThatWentToSleep) {
  WorkerPool pool(2);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // far beyond the spinning
    std::atomic<int> arrived{0};
    // The task that is first waits for the other one, which only another thread can run.
    pool.run(2, [&](int, int) {
      arrived.fetch_add(1);
      while (arrived.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived.load(), 2);
  }
}

// Threads of this process that are not asleep, after the kernel.
int awake_threads() {
  int awake = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream in(task.path() / "stat");
    std::string stat;
    std::getline(in, stat);
    const size_t name_end = stat.rfind(')');
    if (name_end != std::string::npos && stat.compare(name_end, 3, ") S") != 0) ++awake;
  }
  return awake;
}

TEST(WorkerPool, SleepsWhenItHasNothingToDo) {
  WorkerPool pool(4);
  pool.run(4, [](int, int) {});
  int awake = awake_threads();
  for (int i = 0; i < 1000 && awake > 1; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    awake = awake_threads();
  }
  EXPECT_EQ(awake, 1);  // this one
}

TEST(WorkerPool, FinishesOnOneCoreWithMoreThreadsThanCores) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  {
    WorkerPool pool(4);  // inherits the single core
    std::atomic<int> done{0};
    for (int job = 0; job < 500; ++job) pool.run(8, [&](int, int) { done.fetch_add(1); });
    EXPECT_EQ(done.load(), 4000);
  }
  ::sched_setaffinity(0, sizeof before, &before);
}

TEST(WorkerPool, EndsCleanlyBusyIdleOrUnused) {
  for (int i = 0; i < 50; ++i) {
    const auto pool = std::make_unique<WorkerPool>(3);
    if (i % 3 != 0) pool->run(5, [](int, int) {});
    if (i % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST(WorkerPoolDeathTest, StopsTheProgramWhenATaskStartsAJob) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        WorkerPool pool(1);
        pool.run(1, [&](int, int) { pool.run(1, [](int, int) {}); });
      },
      "one job at a time");
}

}  // namespace
}  // namespace strata
