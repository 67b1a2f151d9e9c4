#pragma once

#include <cstdint>

namespace dettax {

// Stress for evidence: short sleeps of random length, so that threads and ranks that race do not
// always finish in the same order. A delay depends on the seed and its place alone. A value; `0`
// is off.
class Jitter {
 public:
  explicit Jitter(uint64_t seed = 0) : seed_(seed) {}
  bool on() const { return seed_ != 0; }
  // Between the parts of one operation: half of the times none, else up to about 0.1 ms.
  void delay(uint32_t place, uint64_t high, uint64_t low) const;
  // A random number from 1 to `most`.
  int64_t up_to(int64_t most, uint32_t place, uint64_t high, uint64_t low) const;
  // Before ranks meet, who are further apart: up to 2 ms.
  void long_delay(uint64_t count) const;

 private:
  uint64_t seed_;
};

}  // namespace dettax
