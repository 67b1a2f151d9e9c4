// Real steps recorded in real processes: needs the dettax program.
#include <algorithm>
#include <memory>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/launch/case_profile.h"
#include "harness/launch/launcher.h"
#include "harness/launch/profile_rounds.h"
#include "harness/launch/protocol.h"
#include "harness/launch/run_case.h"
#include "profiles/attribution.h"
#include "profiles/steps.h"
#include "tests/launch/support.h"

namespace dettax {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::launch_settings;
using ::testing::SizeIs;
using testing::TemporaryFolder;
using testing::tiny_suite;

class Profile : public ::testing::Test {
 protected:
  std::unique_ptr<ArmGroup> start(const std::string& mode) {
    return launcher_->start(
        {mode, suite_.cases.at(0), mode == "fast" ? suite_.fast : suite_.modes.at(0)}, mode);
  }
  ProfileContext context() {
    suite_.profile.budget_seconds = 0.1;  // three rounds
    return {suite_.cases.at(0), suite_, folder_.path(), 0.01, [](const std::string&) {}};
  }

  TemporaryFolder folder_;
  Suite suite_ = tiny_suite(folder_.path(), "  - {}\n");
  std::unique_ptr<Launcher> launcher_ = make_thread_launcher(launch_settings(folder_.path()));
};

std::set<std::string> paths_of(const Trace& trace) {
  std::set<std::string> paths;
  for (const Span& span : trace.spans) paths.insert(trace.paths[span.path]);
  return paths;
}

TEST_F(Profile, RecordsEveryRankOpByOp) {
  const auto group = start("deterministic");
  const StepsRun run = group->profile_steps(3);
  ASSERT_THAT(run.step_time_seconds, SizeIs(2));
  EXPECT_THAT(run.step_time_seconds[0], SizeIs(3));
  const std::vector<Trace> traces = collect_traces(*group, folder_.path() / "traces");
  ASSERT_THAT(traces, SizeIs(2));
  for (const Trace& trace : traces) {
    EXPECT_EQ(trace.losses.dropped, 0);
    ASSERT_THAT(step_windows(trace), SizeIs(3));
    for (const char* path : {"forward/layer1/attention", "backward/layer0/mlp_up", "reduce/bucket",
                             "optimizer/adamw"}) {
      EXPECT_THAT(paths_of(trace), Contains(path));
    }
  }
  // What was taken is gone, and there is room for more.
  group->profile_steps(2);
  EXPECT_THAT(step_windows(collect_traces(*group, folder_.path() / "again").at(1)), SizeIs(2));
}

TEST_F(Profile, WhatLiesBetweenBlocksBelongsToNoStep) {
  const auto group = start("deterministic");
  group->profile_steps(2);
  group->profile_steps(1);
  const auto windows = step_windows(collect_traces(*group, folder_.path() / "traces").at(0));
  ASSERT_THAT(windows, SizeIs(3));
  EXPECT_EQ(windows[0].end_ns, windows[1].start_ns);
  EXPECT_LT(windows[1].end_ns, windows[2].start_ns);
}

TEST_F(Profile, StepsThatAreNotRecordedLeaveNothing) {
  const auto group = start("deterministic");
  group->profile_steps(1);
  group->run_steps(4);
  EXPECT_THAT(step_windows(collect_traces(*group, folder_.path() / "traces").at(0)), SizeIs(1));
}

TEST_F(Profile, MoreStepsThanARecorderHoldsAreNotAttributed) {
  const auto group = start("deterministic");
  group->profile_steps(kProfiledStepsMost + 1);
  const std::vector<Trace> traces = collect_traces(*group, folder_.path() / "traces");
  EXPECT_GT(traces.at(0).losses.dropped, 0);
  EXPECT_THROW(attribute(traces, traces), Error);
}

TEST_F(Profile, OfTwoArmsAddsUpToTheirDifference) {
  const auto fast = start("fast"), deterministic = start("deterministic");
  const std::vector<ArmProfile> profiles =
      profile_arms({fast.get(), deterministic.get()}, context());
  ASSERT_THAT(profiles, SizeIs(1));
  const ArmProfile& profile = profiles[0];
  ASSERT_EQ(profile.refusal, "");
  EXPECT_EQ(profile.ranks, 2);
  double fast_seconds = 0, delta_seconds = 0;
  for (const MechanismTime& time : profile.mechanisms) {
    fast_seconds += time.fast_seconds;
    delta_seconds += time.delta_seconds;
  }
  EXPECT_NEAR(fast_seconds, profile.fast_seconds, 1e-9);
  EXPECT_NEAR(delta_seconds, profile.deterministic_seconds - profile.fast_seconds, 1e-9);
  EXPECT_TRUE(profile.recording_ratio && profile.fast_recording_ratio);
  EXPECT_THAT(profile.paths, Not(IsEmpty()));
}

// Long against what a loaded machine does to a step of milliseconds.
TEST_F(Profile, FindsTheOpsThatWereMadeLonger) {
  suite_ =
      tiny_suite(folder_.path(),
                 "  - injections:\n"
                 "      - {kind: delay, arm: deterministic, op: backward/layer1/attention, "
                 "seconds: 0.1}\n"
                 "      - {kind: delay, arm: deterministic, op: reduce/bucket, seconds: 0.05}\n");
  const auto fast = start("fast"), deterministic = start("deterministic");
  const ArmProfile profile = profile_arms({fast.get(), deterministic.get()}, context()).at(0);
  ASSERT_EQ(profile.refusal, "");
  const auto largest = [&](const std::string& mechanism) {
    const auto found = std::ranges::find_if(
        profile.paths, [&](const PathTime& time) { return time.mechanism.starts_with(mechanism); });
    return found == profile.paths.end() ? PathTime{} : *found;
  };
  // Means over two ranks, of which one has the delays and the other waits for it.
  EXPECT_EQ(largest("compute").path, "backward/layer1/attention");
  EXPECT_GT(largest("compute").delta_seconds, 0.025);
  EXPECT_EQ(largest("exposed_comm.wait").path, "reduce/bucket");
  EXPECT_GT(largest("exposed_comm.wait").delta_seconds, 0.025);
  EXPECT_EQ(largest("exposed_comm.transfer").path, "reduce/bucket");
  EXPECT_GT(largest("exposed_comm.transfer").delta_seconds, 0.02);
}

TEST_F(Profile, OfEachKnobClosesAndNamesWhatIsEnough) {
  KnobControl caught;
  caught.knob = "grad_norm";
  caught.status = ControlStatus::caught;
  const Ablation ablation = run_ablation(*launcher_, suite_.modes.at(0), {caught}, context());
  ASSERT_EQ(ablation.refusal, "");
  EXPECT_GE(ablation.rounds, 3);
  EXPECT_THAT(ablation.knobs, SizeIs(::testing::Ge(7U)));
  // A sum over two ranks has one order, and a rank has one thread: nothing can differ here.
  EXPECT_TRUE(ablation.sufficient.reproducible) << ablation.sufficient.reason;
  EXPECT_THAT(ablation.sufficient.knobs, Contains("grad_norm"));
  EXPECT_LT(ablation.sufficient.knobs.size(), ablation.knobs.size());
  EXPECT_TRUE(ablation.sufficient.overhead_ratio);
}

TEST_F(Profile, OfAModeThatIsFastHasNoKnobsToTurn) {
  EXPECT_THAT(run_ablation(*launcher_, suite_.fast, {}, context()).refusal,
              HasSubstr("as fast has it"));
}

}  // namespace
}  // namespace dettax
