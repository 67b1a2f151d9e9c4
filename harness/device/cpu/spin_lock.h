#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace dettax {

// Guards the short additions of the arrival-order variants. Whoever waits long gives its core away,
// since the holder may have none when threads outnumber cores. One cache line each.
class alignas(64) SpinLock {
 public:
  void lock() {
    for (int tries = 0; held_.exchange(true, std::memory_order_acquire); ++tries) {
      while (held_.load(std::memory_order_relaxed)) {
        if (++tries > kTriesBeforeYield) std::this_thread::yield();
      }
    }
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  static constexpr int kTriesBeforeYield = 2000;
  std::atomic<bool> held_{false};
};

}  // namespace dettax
