#include "harness/device/cpu/jitter.h"

#include <array>
#include <chrono>
#include <thread>

#include "harness/base/random.h"

namespace dettax {
namespace {

constexpr double kDelaySeconds = 50e-6;  // a sleep takes about as long again to wake up from
constexpr double kLongDelaySeconds = 2e-3;
constexpr uint32_t kLongDelays = UINT32_MAX;  // a stream no place uses

std::array<uint32_t, 4> draw(uint64_t seed, uint32_t place, uint64_t high, uint64_t low) {
  return random_words({seed, RandomPurpose::schedule, place}, high, low);
}

// Sleeps instead of polling: where threads outnumber cores the others must have this one's.
void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

}  // namespace

void Jitter::delay(uint32_t place, uint64_t high, uint64_t low) const {
  const auto words = draw(seed_, place, high, low);
  if ((words[0] & 1U) == 0) return;
  sleep(kDelaySeconds * uniform(words[1]));
}

int64_t Jitter::up_to(int64_t most, uint32_t place, uint64_t high, uint64_t low) const {
  return 1 + static_cast<int64_t>(draw(seed_, place, high, low)[0]) % most;
}

void Jitter::long_delay(uint64_t count) const {
  sleep(kLongDelaySeconds * uniform(draw(seed_, kLongDelays, 0, count)[0]));
}

}  // namespace dettax
