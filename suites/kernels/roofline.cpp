#include "suites/kernels/roofline.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "harness/device/cpu/memory.h"
#include "harness/device/cpu/team.h"
#include "suites/kernels/fma_peak.h"

namespace dettax {
namespace {

constexpr int kCopies = 9;
constexpr int kPeaks = 300;  // over half a second, so that some meet both cores free

// Each thread copies its part; what is copied counts as read and as written.
double copy_bytes_per_second(Team& team) {
  constexpr size_t kBytes = size_t{128} << 20U;
  const Buffer from = allocate_pages(kBytes), to = allocate_pages(kBytes);
  std::memset(from.data(), 1, kBytes);
  std::memset(to.data(), 2, kBytes);
  const size_t part = kBytes / static_cast<size_t>(team.size());
  double best = 0;
  for (int i = 0; i < kCopies; ++i) {
    const auto start = std::chrono::steady_clock::now();
    team.run([&](int thread) {
      const size_t at = part * static_cast<size_t>(thread);
      std::memcpy(static_cast<char*>(to.data()) + at, static_cast<const char*>(from.data()) + at,
                  part);
    });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2 * static_cast<double>(part) * team.size() / seconds.count());
  }
  return best;
}

Roofline measure() {
  Team team(static_cast<int>(std::thread::hardware_concurrency()), true);
  double peak = 0;
  for (int i = 0; i < kPeaks; ++i) {
    peak = std::max(peak, peak_flops_per_second(team));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {peak, copy_bytes_per_second(team)};
}

}  // namespace

const Roofline& roofline() {
  static const Roofline kRoofline = measure();
  return kRoofline;
}

double least_seconds(double flops, double bytes) {
  return std::max(flops / roofline().flops_per_second, bytes / roofline().bytes_per_second);
}

}  // namespace dettax
