#include "profiles/partition.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "profiles/sweep.h"
#include "tests/profiles/simulation.h"

namespace dettax {
namespace {

// Work of random kinds on a few streams, some of it of no length, some overlapping on its own stream.
Trace random_work(uint32_t seed, int pieces) {
  std::mt19937 random(seed);
  const auto below = [&](int limit) {
    return static_cast<int64_t>(random() % static_cast<uint32_t>(limit));
  };
  Trace trace;
  for (int stream = 0; stream < 3; ++stream)
    trace.streams.push_back({"0", "s", true, 0, 7 + stream});
  trace.streams.push_back({"1", "t", false, 0, 0});
  int64_t time = 100;
  for (int i = 0; i < pieces; ++i) {
    time += below(12);
    Span call{.start_ns = time - below(30),
              .correlation = static_cast<uint64_t>(i + 1),
              .stream = 3,
              .category = Category::launch};
    call.end_ns = call.start_ns + below(8);
    Span span{.start_ns = time, .end_ns = time + below(15), .correlation = call.correlation};
    span.category = static_cast<Category>(below(5));
    span.stream = static_cast<uint32_t>(below(3));
    span.path = trace.paths.intern("p" + std::to_string(below(6)));
    trace.spans.push_back(call);
    trace.spans.push_back(span);
    if (below(4) == 0)
      trace.spans.push_back(
          {.start_ns = time + below(9),
           .end_ns = time + 9 + below(9),
           .stream = 3,
           .category = static_cast<Category>(static_cast<int>(Category::synchronize) + below(4))});
  }
  sort_spans(trace);
  return trace;
}

TEST(Partition, OfRandomWorkAddsUpToTheNanosecond) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Trace trace = random_work(seed, 60);
    int64_t start = 1000, end = 0;
    for (const Span& span : trace.spans) {
      if (!is_work(span.category)) continue;
      start = std::min(start, span.start_ns);
      end = std::max(end, span.end_ns);
    }
    std::vector<StepWindow> windows;
    for (int64_t at = start, index = 0; at < end; ++index) {
      const int64_t next = std::min(
          end, at + 1 + static_cast<int64_t>((seed * 7 + static_cast<uint32_t>(index) * 13) % 90));
      windows.push_back({index, at, next, 0, 0, {}});
      at = next;
    }
    LastArrivals arrivals(trace.spans.size(), kNoOtherRank);
    for (size_t i = 0; i < arrivals.size(); i += 2) arrivals[i] = trace.spans[i].start_ns + 4;
    for (const StepPartition& step : partition(trace, windows, arrivals)) {
      int64_t sum = 0;
      for (const Cell& cell : step.cells) {
        EXPECT_GE(cell.owned_ns, 0);
        sum += cell.owned_ns;
      }
      ASSERT_EQ(sum, step.window.length_ns()) << "seed " << seed;
    }
  }
}

TEST(Partition, ThatDoesNotAddUpIsNeverPassedOn) {
  const Trace trace = random_work(1, 20);
  std::vector<StepPartition> steps = partition(trace, {{0, 120, 150, 0, 0, {}}}, {});
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_NO_THROW(check_partition(steps[0]));
  steps[0].cells[0].owned_ns += 1;
  EXPECT_THROW(check_partition(steps[0]), Error);
}

// The owner of one nanosecond, by looking at all work: what the sweep must agree with.
int64_t owner_at(const Trace& trace, int64_t time_ns) {
  int64_t best = -1;
  const auto claim = [&](size_t i) {
    const Span& span = trace.spans[i];
    return std::tuple(claim_of(span.category), span.start_ns, span.stream, i);
  };
  for (size_t i = 0; i < trace.spans.size(); ++i) {
    const Span& span = trace.spans[i];
    if (!is_work(span.category) || time_ns < span.start_ns || time_ns >= span.end_ns) continue;
    if (best < 0 || claim(i) < claim(static_cast<size_t>(best))) best = static_cast<int64_t>(i);
  }
  return best;
}

TEST(Sweep, AgreesWithALookAtEveryNanosecond) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const Trace trace = random_work(seed, 40);
    std::vector<uint32_t> work;
    for (size_t i = 0; i < trace.spans.size(); ++i) {
      if (is_work(trace.spans[i].category)) work.push_back(static_cast<uint32_t>(i));
    }
    int64_t at = trace.spans[work.front()].start_ns;
    sweep(
        trace, work,
        [&](int64_t start, int64_t end, uint32_t owner) {
          ASSERT_EQ(start, at);
          for (; at < end; ++at)
            ASSERT_EQ(owner_at(trace, at), static_cast<int64_t>(owner))
                << "seed " << seed << ", " << at;
        },
        [&](int64_t start, int64_t end, uint32_t next) {
          ASSERT_EQ(start, at);
          for (; at < end; ++at) ASSERT_EQ(owner_at(trace, at), -1);
          ASSERT_EQ(trace.spans[next].start_ns, end);
        });
  }
}

struct Maker {
  Trace trace;
  Maker() {
    trace.streams = {{"1", "1", false, 0, 0}, {"0", "7", true, 0, 7}, {"0", "8", true, 0, 8}};
  }
  void work(int64_t start, int64_t end, Category category, uint32_t stream = 1,
            uint64_t correlation = 0) {
    Span span{.start_ns = start,
              .end_ns = end,
              .correlation = correlation,
              .stream = stream,
              .category = category};
    span.path = trace.paths.intern("p");
    trace.spans.push_back(span);
  }
  void call(int64_t start, int64_t end, Category category, uint64_t correlation = 0) {
    trace.spans.push_back({.start_ns = start,
                           .end_ns = end,
                           .correlation = correlation,
                           .stream = 0,
                           .category = category});
  }
  int64_t owned(Mechanism mechanism, int64_t start, int64_t end, LastArrivals arrivals = {}) {
    sort_spans(trace);
    int64_t sum = 0;
    for (const StepPartition& step : partition(trace, {{0, start, end, 0, 0, {}}}, arrivals)) {
      for (const Cell& cell : step.cells) sum += cell.mechanism == mechanism ? cell.owned_ns : 0;
    }
    return sum;
  }
};

TEST(Partition, GivesOverlapsToTheHigherKind) {
  Maker maker;
  maker.work(0, 100, Category::communication, 2);
  maker.work(20, 50, Category::compute);
  maker.work(50, 60, Category::fill);
  maker.work(60, 70, Category::memset);
  maker.work(95, 120, Category::copy);
  EXPECT_EQ(maker.owned(Mechanism::compute, 0, 120), 30);
  EXPECT_EQ(maker.owned(Mechanism::memory_fill, 0, 120), 10);
  EXPECT_EQ(maker.owned(Mechanism::communication_unsplit, 0, 120), 60);
  EXPECT_EQ(maker.owned(Mechanism::copy, 0, 120), 20);
}

TEST(Partition, NamesIdleTimeByWhatHeldTheNextWorkUp) {
  Maker host;  // the device is idle from 100 to 200
  host.work(0, 100, Category::compute, 1, 1);
  host.work(200, 210, Category::compute, 1, 2);
  host.call(-10, -5, Category::launch, 1);
  host.call(50, 120, Category::synchronize);
  host.call(130, 140, Category::profiler);
  host.call(140, 150, Category::allocate);
  host.call(170, 185, Category::launch, 2);
  EXPECT_EQ(host.owned(Mechanism::idle_synchronize, 0, 200), 20);
  EXPECT_EQ(host.owned(Mechanism::profiler, 0, 200), 10);
  EXPECT_EQ(host.owned(Mechanism::idle_allocation, 0, 200), 10);
  EXPECT_EQ(host.owned(Mechanism::idle_host, 0, 200), 30);
  EXPECT_EQ(host.owned(Mechanism::idle_launch_call, 0, 200), 15);
  EXPECT_EQ(host.owned(Mechanism::idle_launch_latency, 0, 200), 15);
  EXPECT_EQ(host.owned(Mechanism::idle_gap, 0, 200), 0);

  Maker device;  // launched long before
  device.work(0, 100, Category::compute, 1, 1);
  device.work(110, 120, Category::compute, 1, 2);
  device.call(-10, -5, Category::launch, 1);
  device.call(-4, -1, Category::launch, 2);
  EXPECT_EQ(device.owned(Mechanism::idle_gap, 0, 110), 10);
}

TEST(Partition, SplitsCommunicationWhenTheLastRankArrives) {
  Maker maker;
  maker.work(0, 100, Category::communication, 2);
  maker.work(10, 30, Category::compute);
  EXPECT_EQ(maker.owned(Mechanism::communication_wait, 0, 100, {60, kNoOtherRank}), 40);
  EXPECT_EQ(maker.owned(Mechanism::communication_transfer, 0, 100, {60, kNoOtherRank}), 40);
  EXPECT_EQ(maker.owned(Mechanism::communication_wait, 0, 100, {-5, kNoOtherRank}), 0);
}

TEST(Steps, OfADeviceRunFromFirstWorkToFirstWork) {
  SimulatedLoop loop;
  loop.ranks = 1;
  loop.steps = 3;
  const Trace trace = simulate(loop)[0];
  const std::vector<StepWindow> windows = step_windows(trace);
  ASSERT_EQ(windows.size(), 3U);
  EXPECT_EQ(windows[0].incomplete, "");
  EXPECT_EQ(windows[0].end_ns, windows[1].start_ns);
  EXPECT_EQ(windows[2].incomplete, "the capture ends with it");
  EXPECT_EQ(windows[0].launches, windows[0].answered);
}

TEST(Steps, WithoutMarksAreOne) {
  SimulatedLoop loop;
  Trace trace = simulate(loop)[0];
  trace.steps.clear();
  ASSERT_EQ(step_windows(trace).size(), 1U);
  EXPECT_EQ(step_windows(trace)[0].incomplete, "");
}

}  // namespace
}  // namespace dettax
