#include "harness/comm/progress_thread.h"

#include <chrono>

namespace dettax {

ProgressThread::ProgressThread() : thread_([this] { loop(); }) {}

ProgressThread::~ProgressThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  pushed_.notify_one();
  thread_.join();
}

void ProgressThread::push(Task& task) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(&task);
  }
  pushed_.notify_one();
}

void ProgressThread::wait(const Task& task) {
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&task] { return task.finished; });
}

bool ProgressThread::finished(const Task& task) {
  const std::lock_guard lock(mutex_);
  return task.finished;
}

void ProgressThread::drain() {
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [this] { return queue_.empty(); });
}

void ProgressThread::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    pushed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Task& task = *queue_.front();
    lock.unlock();
    run(task);
    lock.lock();
    queue_.pop_front();
    task.finished = true;
    finished_.notify_all();
  }
}

// The error is thrown again where the operation is waited for.
void ProgressThread::run(Task& task) {
  task.began = std::chrono::steady_clock::now();
  try {
    task.work();
  } catch (...) {
    task.error = std::current_exception();
  }
  task.time_ns = (std::chrono::steady_clock::now() - task.began).count();
}

}  // namespace dettax
