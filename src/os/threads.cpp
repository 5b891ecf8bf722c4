#include "os/threads.h"

#include <chrono>
#include <system_error>

#include "base/check.h"

namespace strata {
namespace {

// How long a thread spins: over the short serial stretches between two operations of a step. A time, because a pause of
// one processor is ten of another. Then come some rounds in which any other program may have the core, then sleep.
constexpr std::chrono::microseconds kSpin{50};
constexpr int kYields = 50;

void pause_core() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until `done` or for about kSpin; whether it came true. The clock is not looked at where it comes true at once.
template <class F>
bool spin_until(F&& done) {
  constexpr int kPauses = 16;  // between looks at the clock
  const auto soon = [&] {
    for (int i = 0; i < kPauses; ++i) {
      if (done()) return true;
      pause_core();
    }
    return false;
  };
  if (soon()) return true;
  const auto end = std::chrono::steady_clock::now() + kSpin;
  while (std::chrono::steady_clock::now() < end) {
    if (soon()) return true;
  }
  return false;
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
    const auto done = [&] { return (gate_.load(std::memory_order_acquire) & kInside) == 0; };
    if (!spin_until(done)) {
      while (!done()) std::this_thread::yield();
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
  const auto called = [&] {
    return ready(gate_.load(std::memory_order_relaxed)) || stop_.load(std::memory_order_relaxed);
  };
  bool awake = spin_until(called);
  for (int round = 0; round < kYields && !awake; ++round) {
    std::this_thread::yield();
    awake = called();
  }
  if (awake) return !stop_.load(std::memory_order_relaxed);
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
