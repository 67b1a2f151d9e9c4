#include "harness/comm/signal_word.h"

#include <hwy/cache_control.h>

namespace dettax {

uint32_t SignalWord::wait_while(uint32_t old, bool spin) const {
  for (int i = 0; spin && i < kSpins; ++i) {
    const uint32_t now = word_.load();
    if (now != old) return now;
    hwy::Pause();
  }
  for (uint32_t now = word_.load();; now = word_.load()) {
    if (now != old) return now;
    word_.wait(old);
  }
}

}  // namespace dettax
