#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/random.h"
#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/team.h"

namespace dettax::test {

// The operations on a team of their own. Idle threads poll only if each has a core.
struct OpsOn {
  explicit OpsOn(int threads)
      : team(threads, threads <= static_cast<int>(std::thread::hardware_concurrency())),
        ops(team) {}
  Team team;
  CpuOps ops;
  CpuOps* operator->() { return &ops; }
};

using Floats = std::vector<float>;
using Ints = std::vector<int32_t>;
using Doubles = std::vector<double>;

inline Tensor tensor(Floats& values, std::initializer_list<int64_t> shape) {
  return make_tensor(values.data(), DType::f32, shape);
}
inline Tensor tensor(Floats& values) {
  return tensor(values, {static_cast<int64_t>(values.size())});
}
inline Tensor tensor(Ints& values) {
  return make_tensor(values.data(), DType::i32, {static_cast<int64_t>(values.size())});
}

// Uniform in (-amplitude, amplitude) about `center`; the same for the same stream.
inline Floats random_floats(int64_t count, uint32_t stream, double amplitude = 1,
                            double center = 0) {
  Floats values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto words = random_words({7, RandomPurpose::test, stream}, 0, i);
    values[i] = static_cast<float>(center + amplitude * (2 * uniform(words[0]) - 1));
  }
  return values;
}

// Large and small values of both signs: a sum of them shows the order it was made in.
inline Floats cancelling_floats(int64_t count, uint32_t stream) {
  Floats values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto words = random_words({8, RandomPurpose::test, stream}, 0, i);
    const double magnitude = std::exp2(16 * uniform(words[1]) - 8);
    values[i] = static_cast<float>(magnitude * (2 * uniform(words[0]) - 1));
  }
  return values;
}

inline Ints random_ints(int64_t count, uint32_t stream, int32_t below) {
  Ints values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto words = random_words({9, RandomPurpose::test, stream}, 0, i);
    values[i] = static_cast<int32_t>(words[0] % static_cast<uint32_t>(below));
  }
  return values;
}

inline Doubles to_doubles(const Floats& values) { return {values.begin(), values.end()}; }

inline bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Each element within `tolerance` times the largest magnitude of the reference (or 1e-6 of it if all
// of it is smaller).
inline void expect_close(const Floats& actual, const Doubles& expected, double tolerance,
                         const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double scale = 1e-6;
  for (const double v : expected) scale = std::max(scale, std::abs(v));
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(actual[i]), expected[i], tolerance * scale)
        << what << " at " << i;
  }
}

// Central difference of f by x[i]; f must read x.
inline double slope(const std::function<double()>& f, Doubles& x, size_t i) {
  const double old = x[i];
  const double step = 1e-5 * std::max(1.0, std::abs(old));
  x[i] = old + step;
  const double above = f();
  x[i] = old - step;
  const double below = f();
  x[i] = old;
  return (above - below) / (2 * step);
}

inline double dot(const Doubles& a, const Doubles& b) {
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

// How many further runs of `run` it took until its result differed from the first one's bits; 0 if
// it never did. A machine that is busy runs a team's threads one after the other for long stretches,
// so the patience is a time.
inline int runs_until_different(const std::function<Floats()>& run, int tries,
                                std::chrono::seconds patience = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + patience;
  const Floats first = run();
  for (int i = 1; i <= tries && std::chrono::steady_clock::now() < end; ++i) {
    if (!same_bits(first, run())) return i;
  }
  return 0;
}

inline constexpr int kManyTries = 1 << 30;

// The twin of every "bitwise equal" test of an operation with an order: `arrival` can differ from
// run to run, the fixed order does not in as many runs.
inline void expect_only_arrival_differs(const std::function<Floats(Order)>& run) {
  const int needed = runs_until_different([&] { return run(Order::arrival); }, kManyTries);
  ASSERT_GT(needed, 0) << "arrival gave the same bits every time";
  const int tries = std::clamp(needed, 20, 2000);
  EXPECT_EQ(runs_until_different([&] { return run(Order::ordered); }, tries), 0) << "ordered";
  EXPECT_EQ(runs_until_different([&] { return run(Order::invariant); }, tries), 0) << "invariant";
}

}  // namespace dettax::test
