#pragma once

#include <algorithm>
#include <barrier>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "harness/comm/communicator.h"

namespace dettax {

// Threads of ranks that stay, so that a benchmark times operations and not their start.
class RankThreads {
 public:
  using Work = std::function<void(Communicator&)>;

  RankThreads(int ranks, bool spin, const CollectiveSettings& settings)
      : communicators_(make_thread_communicators(ranks, spin, settings)),
        seconds_(communicators_.size()),
        gate_(ranks + 1) {
    for (size_t r = 0; r < communicators_.size(); ++r)
      threads_.emplace_back([this, r] { serve(r); });
  }
  ~RankThreads() {
    work_ = nullptr;
    gate_.arrive_and_wait();
  }
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  // Seconds that the slowest rank needed, from when all were there.
  double time(const Work& work) {
    work_ = &work;
    gate_.arrive_and_wait();
    gate_.arrive_and_wait();
    return *std::ranges::max_element(seconds_);
  }

 private:
  void serve(size_t rank) {
    for (;;) {
      gate_.arrive_and_wait();
      if (work_ == nullptr) return;
      communicators_[rank]->barrier();
      const auto start = std::chrono::steady_clock::now();
      (*work_)(*communicators_[rank]);
      seconds_[rank] =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      gate_.arrive_and_wait();
    }
  }

  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<double> seconds_;
  const Work* work_ = nullptr;
  std::barrier<> gate_;
  std::vector<std::jthread> threads_;  // last: they use what stands above
};

}  // namespace dettax
