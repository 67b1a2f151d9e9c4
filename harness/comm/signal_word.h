#pragma once

#include <atomic>
#include <cstdint>

namespace dettax {

// A counter that threads wait on: they poll for a moment, then sleep in the kernel. Bit 0 says that
// the group was aborted, which also ends every wait. All accesses are sequentially consistent:
// abort() and the readers' count of a group rely on one order.
class SignalWord {
 public:
  uint32_t value() const { return word_.load(); }
  static bool aborted(uint32_t value) { return (value & 1U) != 0; }

  void advance() {
    word_.fetch_add(2);
    word_.notify_all();
  }
  void abort() {
    word_.fetch_or(1U);
    word_.notify_all();
  }
  // Returns the new value once it differs from `old`.
  uint32_t wait_while(uint32_t old, bool spin) const;

 private:
  std::atomic<uint32_t> word_{0};
};

}  // namespace dettax
