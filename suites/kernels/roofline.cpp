#include "suites/kernels/roofline.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "harness/device/cpu/memory.h"
#include "harness/device/cpu/team.h"
#include "suites/kernels/fma_peak.h"

namespace dettax {
namespace {

constexpr int kPasses = 9;
constexpr int kPeaks = 300;  // over half a second, so that some meet both cores free

// The best of copying and of updating in place, by each thread in its part; what is read and what is written counts. A copy may
// have to read what it overwrites, an update has not.
double memory_bytes_per_second(Team& team) {
  constexpr size_t kFloats = size_t{32} << 20U;
  const Buffer from = allocate_pages(kFloats * sizeof(float)),
               to = allocate_pages(kFloats * sizeof(float));
  auto* const source = static_cast<float*>(from.data());
  auto* const target = static_cast<float*>(to.data());
  std::fill_n(source, kFloats, 1.0f);
  std::fill_n(target, kFloats, 2.0f);
  const size_t part = kFloats / static_cast<size_t>(team.size());
  const auto rate = [&](const std::function<void(size_t at)>& work) {
    const auto start = std::chrono::steady_clock::now();
    team.run([&](int thread) { work(part * static_cast<size_t>(thread)); });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    return 2 * sizeof(float) * static_cast<double>(part) * team.size() / seconds.count();
  };
  double best = 0;
  for (int i = 0; i < kPasses; ++i) {
    best = std::max(best, rate([&](size_t at) {
                      std::memcpy(target + at, source + at, part * sizeof(float));
                    }));
    best = std::max(best, rate([&](size_t at) {
                      for (size_t j = at; j < at + part; ++j) target[j] *= 0.5f;
                    }));
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
  return {peak, memory_bytes_per_second(team)};
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
