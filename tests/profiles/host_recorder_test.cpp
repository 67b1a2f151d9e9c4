#include "profiles/host_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "profiles/attribution.h"
#include "profiles/partition.h"
#include "profiles/steps.h"

namespace dettax {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): a plain function has no other state
int64_t fake_now = 0;
int64_t fake_clock() { return fake_now; }
// Each look at the clock takes 3 ns.
int64_t slow_clock() { return fake_now += 3; }

HostRecorder recorder_of(size_t spans, int64_t (*clock)() = fake_clock) {
  fake_now = 1000;
  return HostRecorder(
      {.threads = {"main"}, .spans_per_thread = spans, .steps = 4, .now_ns = clock});
}

int64_t owned(const Trace& trace, Mechanism mechanism, size_t step = 0) {
  int64_t sum = 0;
  const auto steps = partition(trace, step_windows(trace), {});
  for (const Cell& cell : steps.at(step).cells)
    sum += cell.mechanism == mechanism ? cell.owned_ns : 0;
  return sum;
}

TEST(HostRecorder, AnOpLastsUntilTheNextOrItsEnd) {
  HostRecorder recorder = recorder_of(10);
  HostLane& lane = recorder.lane(0);
  recorder.begin_step(0);
  lane.enter(lane.text_of("forward/layer0/norm1"), Category::compute);
  fake_now += 100;
  lane.enter(lane.text_of("forward/memory_fill"), Category::fill, 64);
  fake_now += 20;
  lane.leave();
  fake_now += 7;
  lane.enter(lane.text_of("reduce/bucket"), Category::communication);
  fake_now += 50;
  lane.leave();
  recorder.end_step();
  const Trace trace = recorder.take();
  EXPECT_EQ(owned(trace, Mechanism::compute), 100);
  EXPECT_EQ(owned(trace, Mechanism::memory_fill), 20);
  EXPECT_EQ(owned(trace, Mechanism::idle_host), 7);
  EXPECT_EQ(owned(trace, Mechanism::communication_unsplit), 50);
  EXPECT_EQ(trace.spans[1].bytes, 64);
  EXPECT_EQ(trace.names[trace.spans[0].name], "norm1");
}

TEST(HostRecorder, TellsWhatRecordingTook) {
  HostRecorder recorder = recorder_of(10, slow_clock);
  HostLane& lane = recorder.lane(0);
  const uint32_t path = lane.text_of("a");
  recorder.begin_step(0);
  for (int i = 0; i < 4; ++i) lane.enter(path, Category::compute);
  lane.leave();
  recorder.end_step();
  EXPECT_EQ(owned(recorder.take(), Mechanism::profiler), 4 * 3);
}

TEST(HostRecorder, OrdinalsCountWithinTheStep) {
  HostRecorder recorder = recorder_of(10);
  HostLane& lane = recorder.lane(0);
  for (int step = 0; step < 2; ++step) {
    recorder.begin_step(step);
    for (int micro = 0; micro < 2; ++micro) {
      fake_now += 5;
      lane.enter(lane.text_of("forward/head"), Category::compute);
    }
    fake_now += 5;
    lane.leave();
    recorder.end_step();
    fake_now += 5;
  }
  const Trace trace = recorder.take();
  std::vector<uint32_t> ordinals;
  for (const Span& span : trace.spans) ordinals.push_back(span.ordinal);
  EXPECT_THAT(ordinals, ElementsAre(0U, 1U, 0U, 1U));
  EXPECT_EQ(trace.steps.size(), 2U);
  EXPECT_EQ(recorder.take().spans.size(), 0U);
}

TEST(HostRecorder, CountsWhatDoesNotFitAndIsThenRefused) {
  HostRecorder recorder = recorder_of(3);
  HostLane& lane = recorder.lane(0);
  recorder.begin_step(0);
  for (int i = 0; i < 5; ++i) {
    lane.enter(lane.text_of("a"), Category::compute);
    fake_now += 10;
  }
  lane.leave();
  recorder.end_step();
  const Trace trace = recorder.take();
  EXPECT_EQ(trace.losses.dropped, 2);
  EXPECT_EQ(trace.spans.size(), 3U);
  EXPECT_EQ(trace.spans.back().end_ns - trace.spans.back().start_ns, 10);
  try {
    attribute({trace}, {trace});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the recorder was full"));
  }
}

TEST(HostRecorder, CountsStepsThatDoNotFit) {
  HostRecorder recorder = recorder_of(10);
  for (int step = 0; step < 6; ++step) {
    recorder.begin_step(step);
    fake_now += 10;
    recorder.end_step();
  }
  const Trace trace = recorder.take();
  EXPECT_EQ(trace.steps.size(), 4U);
  EXPECT_EQ(trace.losses.dropped, 2);
}

TEST(HostRecorder, WorkTimedElsewhereMayLieUnderAnOpenOp) {
  HostRecorder recorder = recorder_of(10);
  HostLane& lane = recorder.lane(0);
  recorder.begin_step(0);
  lane.enter(lane.text_of("backward/attention"), Category::compute);
  fake_now += 100;
  lane.add(lane.text_of("reduce/bucket"), Category::communication, fake_now - 60, fake_now + 30);
  fake_now += 10;
  lane.leave();
  fake_now += 40;
  recorder.end_step();
  const Trace trace = recorder.take();
  EXPECT_EQ(owned(trace, Mechanism::compute), 110);
  EXPECT_EQ(owned(trace, Mechanism::communication_unsplit), 20);
  EXPECT_EQ(owned(trace, Mechanism::idle_host), 20);
}

}  // namespace
}  // namespace dettax
