#include "os/threads.h"

#include <system_error>

#include "base/check.h"

namespace strata {
namespace {

// About 50 us of pauses, long enough for the short serial stretches between two operations of a step; then some
// rounds in which any other program may have the core; then sleep.
constexpr int kSpins = 1000;
constexpr int kYields = 50;

void pause_core() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

WorkerPool::WorkerPool(int n_threads) {
  workers_.reserve(static_cast<size_t>(std::max(n_threads, 1)));
  for (int i = 1; i < n_threads; ++i) {
    try {
      workers_.emplace_back([this, i] { worker_main(i); });
    } catch (const std::system_error&) {
      break;  // the limit of threads is reached; the pool works with those it has
    }
  }
}

WorkerPool::~WorkerPool() {
  CHECK(!in_run_.load(), "a worker pool was destroyed while it works");
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_.store(true);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void WorkerPool::run(int n_tasks, TaskRef fn) {
  CHECK(!in_run_.exchange(true, std::memory_order_acquire), "a worker pool does one job at a time");
  if (n_tasks > 1 && !workers_.empty()) {
    n_tasks_ = n_tasks;
    task_ = &fn;
    next_task_.store(0, std::memory_order_relaxed);
    // Sequentially consistent with the counter of sleepers: either they see the job or they are seen here.
    gate_.store((gate_.load(std::memory_order_relaxed) & kJob) + kOneJob + kOpen);
    if (sleeping_.load() > 0) {
      { const std::lock_guard<std::mutex> lock(mutex_); }
      wake_.notify_all();
    }
    work(0);
    // Closed to late comers: only workers that are inside a task are waited for, never one that lost its core.
    gate_.fetch_and(~kOpen, std::memory_order_acq_rel);
    for (int round = 0; (gate_.load(std::memory_order_acquire) & kInside) != 0; ++round) {
      if (round < kSpins) {
        pause_core();
      } else {
        std::this_thread::yield();
      }
    }
  } else {
    for (int task = 0; task < n_tasks; ++task) fn(task, 0);
  }
  in_run_.store(false, std::memory_order_release);
}

void WorkerPool::work(int thread) {
  for (int task; (task = next_task_.fetch_add(1, std::memory_order_relaxed)) < n_tasks_;) (*task_)(task, thread);
}

// Waits until a job newer than last_job is open; false when the pool ends.
bool WorkerPool::wait_for_job(uint64_t last_job) {
  const auto ready = [&](uint64_t gate) { return (gate & kOpen) != 0 && (gate & kJob) != last_job; };
  for (int round = 0; round < kSpins + kYields; ++round) {
    if (ready(gate_.load(std::memory_order_relaxed))) return true;
    if (stop_.load(std::memory_order_relaxed)) return false;
    if (round < kSpins) {
      pause_core();
    } else {
      std::this_thread::yield();
    }
  }
  std::unique_lock<std::mutex> lock(mutex_);
  sleeping_.fetch_add(1);
  wake_.wait(lock, [&] { return stop_.load() || ready(gate_.load()); });
  sleeping_.fetch_sub(1);
  return !stop_.load();
}

void WorkerPool::worker_main(int thread) {
  uint64_t last_job = 0;
  while (wait_for_job(last_job)) {
    uint64_t gate = gate_.load(std::memory_order_relaxed);
    while ((gate & kOpen) != 0 && (gate & kJob) != last_job) {
      if (!gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire, std::memory_order_relaxed)) continue;
      last_job = gate & kJob;
      work(thread);
      gate_.fetch_sub(1, std::memory_order_release);
      gate = gate_.load(std::memory_order_relaxed);
    }
  }
}

}  // namespace strata
