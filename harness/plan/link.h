#pragma once

namespace dettax {

// What a transfer takes at least. Zero: as fast as it goes.
struct Link {
  double latency_seconds = 0;
  double bytes_per_second = 0;
  bool limited() const { return latency_seconds > 0 || bytes_per_second > 0; }
};

}  // namespace dettax
