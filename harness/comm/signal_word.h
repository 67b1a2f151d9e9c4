#pragma once

#include <atomic>
#include <cstdint>

namespace dettax {

// How often to poll before going to sleep: some tens of microseconds, about what sleeping and being
// woken costs.
inline constexpr int kSpins = 1000;

// A counter that threads wait on: they poll for a moment, then sleep in the kernel. Below the count
// stand what else ends a wait: that the group was aborted, and how many ranks have been disturbed,
// so that those who wait look whether it was them. All accesses are sequentially consistent:
// abort() and the readers' count of a group rely on one order.
class SignalWord {
 public:
  uint32_t value() const { return word_.load(); }
  static bool aborted(uint32_t value) { return (value & kAborted) != 0; }
  static bool disturbed(uint32_t value) { return (value & kDisturbed) != 0; }
  static bool same_count(uint32_t a, uint32_t b) { return ((a ^ b) & ~kFlags) == 0; }
  // The value after n times advance(), without flags.
  static uint32_t after(uint32_t n) { return n * kStep; }

  void advance() {
    word_.fetch_add(kStep);
    word_.notify_all();
  }
  void abort() {
    word_.fetch_or(kAborted);
    word_.notify_all();
  }
  void disturb() {
    word_.fetch_add(kDisturbance);
    word_.notify_all();
  }
  // Returns the new value once it differs from `old`.
  uint32_t wait_while(uint32_t old, bool spin) const;

 private:
  static constexpr uint32_t kAborted = 1;
  static constexpr uint32_t kDisturbance = 2;
  static constexpr uint32_t kStep = 1U << 12U;
  static constexpr uint32_t kFlags = kStep - 1;
  static constexpr uint32_t kDisturbed = kFlags - kAborted;

  std::atomic<uint32_t> word_{0};
};

}  // namespace dettax
