#pragma once

#define OMPI_SKIP_MPICXX 1
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <mpi.h>

namespace dettax {

// Throws Error{infrastructure} with MPI's own words if the call has failed.
void check_mpi(int code, const char* call);

// Between two looks at whether something has happened.
class Backoff {
 public:
  explicit Backoff(bool spin) : spin_(spin) {}
  void operator()();
  bool now_and_then() const { return looks_ % 16 == 0; }

 private:
  const bool spin_;
  unsigned looks_ = 0;
};

// Open MPI moves large messages only inside its calls. While messages are under way behind the
// caller's back, this makes some, the fewer the longer they take.
class Mover {
 public:
  explicit Mover(MPI_Comm comm) : comm_(comm), thread_([this] { loop(); }) {}
  ~Mover() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  void add(int messages) {
    {
      const std::lock_guard lock(mutex_);
      under_way_ += messages;
      pause_ = kShortest;
    }
    if (messages > 0) changed_.notify_one();
  }

 private:
  static constexpr auto kShortest = std::chrono::microseconds(50);

  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || under_way_ > 0; });
      if (stopping_) return;
      const auto pause = pause_;
      lock.unlock();
      int found = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &found, MPI_STATUS_IGNORE);
      std::this_thread::sleep_for(pause);
      lock.lock();
      pause_ = std::min(2 * pause, std::chrono::microseconds(1000));
    }
  }

  const MPI_Comm comm_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int under_way_ = 0;
  std::chrono::microseconds pause_ = kShortest;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses what stands above
};

// What all groups of a process share: the reason to stop, if any rank has one.
class MpiJob {
 public:
  MpiJob();
  ~MpiJob();
  MpiJob(const MpiJob&) = delete;
  MpiJob& operator=(const MpiJob&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  Mover& mover() { return *mover_; }
  void abort(const std::string& reason);
  bool aborted();  // looks for what others have sent
  void throw_if_aborted();

 private:
  using Text = std::array<char, 1024>;
  void listen();
  void end();

  int rank_ = 0;
  int size_ = 0;
  MPI_Comm control_ = MPI_COMM_NULL;
  std::mutex mutex_;
  Text outgoing_{}, incoming_{};
  MPI_Request incoming_request_ = MPI_REQUEST_NULL;
  std::vector<MPI_Request> outgoing_requests_;
  std::atomic<bool> aborted_{false};
  std::string reason_;
  std::unique_ptr<Mover> mover_;
};

// Over emulated links: until the clock of link_emulation.h says so, or the job is aborted.
void sleep_until(int64_t due_ns, MpiJob& job);

}  // namespace dettax
