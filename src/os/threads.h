// A fixed set of threads that work on one job at a time. The caller of `run` counts as one of them and always works
// itself, so a job ends even if no other thread gets a core. Between jobs workers spin for a bounded time, then give
// their core away, then sleep. Tasks are handed out one by one: which thread runs a task is not defined, so results
// must not depend on it. One job at a time: `run` inside a task, or from two threads at once, is a bug.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace strata {

// A task function by reference: two pointers, no allocation. The function must outlive the call.
class TaskRef {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, TaskRef>) TaskRef(F&& f)  // NOLINT: implicit on purpose
      : object_(const_cast<void*>(static_cast<const void*>(&f))), call_([](void* object, int task, int thread) {
          (*static_cast<std::remove_reference_t<F>*>(object))(task, thread);
        }) {}

  void operator()(int task, int thread) const { call_(object_, task, thread); }

 private:
  void* object_;
  void (*call_)(void*, int, int);
};

class WorkerPool {
 public:
  // n_threads < 1 counts as 1. Where the system refuses threads the pool is smaller: ask n_threads().
  explicit WorkerPool(int n_threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int n_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // fn(task, thread) for every task in [0, n_tasks), thread in [0, n_threads()); returns when all are done.
  // The caller is thread 0. Tasks must not throw.
  void run(int n_tasks, TaskRef fn);

  // fn(first, last, thread) for pieces of [0, n), each at most `grain` long and starting at a multiple of it.
  template <class F>
  void parallel_for(int n, int grain, F&& fn) {
    const int step = std::max(grain, 1);
    auto piece = [&](int task, int thread) {
      const int first = task * step;
      fn(first, n - first < step ? n : first + step, thread);
    };
    run(n / step + (n % step != 0), piece);
  }

 private:
  void worker_main(int thread);
  void work(int thread);
  bool wait_for_job(uint64_t last_job);

  // gate_: job number in the high half, kOpen while tasks may be left, and below it how many workers are inside.
  static constexpr uint64_t kOpen = uint64_t{1} << 31;
  static constexpr uint64_t kInside = kOpen - 1;
  static constexpr uint64_t kJob = ~uint64_t{0} << 32;
  static constexpr uint64_t kOneJob = uint64_t{1} << 32;

  alignas(64) std::atomic<uint64_t> gate_{0};
  alignas(64) std::atomic<int> next_task_{0};
  alignas(64) std::atomic<int> sleeping_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> in_run_{false};
  int n_tasks_ = 0;                // written only while nobody is inside
  const TaskRef* task_ = nullptr;  // likewise
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
};

}  // namespace strata
