#include "suites/kernels/fma_peak.h"

#include <chrono>
#include <numeric>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "suites/kernels/fma_peak.cpp"
#include "harness/device/cpu/targets.h"
#include "hwy/foreach_target.h"
// What follows is read once for each target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dettax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Twelve chains hide the latency of every FMA unit so far and fit into sixteen registers.
constexpr int kChains = 12;

int64_t multiply_add(int64_t rounds) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.999f);
  hn::Vec<decltype(d)> sum[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sum[i] = hn::Set(d, static_cast<float>(i));
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = hn::MulAdd(sum[i], factor, factor);
  }
  auto total = sum[0];
  for (int i = 1; i < kChains; ++i) total = hn::Add(total, sum[i]);
  volatile float keep = hn::GetLane(total);
  static_cast<void>(keep);
  return rounds * kChains * 2 * static_cast<int64_t>(hn::Lanes(d));
}

}  // namespace HWY_NAMESPACE
}  // namespace dettax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dettax {
HWY_EXPORT(multiply_add);
int64_t multiply_add_in_registers(int64_t rounds) {
  return HWY_DYNAMIC_DISPATCH(multiply_add)(rounds);
}

double peak_flops_per_second(Team& team) {
  constexpr int64_t kRounds = 200'000;
  constexpr size_t kApart = 8;  // counters of threads share no cache line
  std::vector<int64_t> done(static_cast<size_t>(team.size()) * kApart);
  const auto start = std::chrono::steady_clock::now();
  team.run([&](int thread) {
    done[static_cast<size_t>(thread) * kApart] = multiply_add_in_registers(kRounds);
  });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return static_cast<double>(std::accumulate(done.begin(), done.end(), int64_t{0})) /
         seconds.count();
}
}  // namespace dettax
#endif
