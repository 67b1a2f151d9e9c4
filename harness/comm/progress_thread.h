#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace dettax {

// Does the operations of one rank and communicator in the order they were pushed, and sleeps when
// there are none.
class ProgressThread {
 public:
  struct Task {
    std::function<void()> work;
    std::exception_ptr error;
    std::chrono::steady_clock::time_point began;
    int64_t time_ns = 0;
    bool finished = false;
  };

  ProgressThread();
  ~ProgressThread();

  void push(Task& task);  // the task stays where it is until wait() has returned
  void wait(const Task& task);
  bool finished(const Task& task);
  void drain();

 private:
  void loop();
  void run(Task& task);

  std::mutex mutex_;
  std::condition_variable pushed_, finished_;
  std::deque<Task*> queue_;  // the first is being done
  bool stopping_ = false;
  std::thread thread_;  // last: it uses what stands above
};

}  // namespace dettax
