#include <map>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "results/analysis/projection/pipeline_engine.h"

namespace dettax {
namespace {

using testing::HasSubstr;

PipelineTimes run(const Schedule& schedule, const PassTimes& each, double send = 0) {
  PipelineInput input;
  input.times.assign(static_cast<size_t>(schedule.stages * schedule.chunks), each);
  input.send_seconds = send;
  return run_pipeline(schedule, input);
}

Schedule schedule_of(ScheduleKind kind, int stages, int64_t micro_batches, int chunks = 1) {
  return make_schedule({kind, stages, chunks, micro_batches});
}

constexpr PassTimes kPass{1.0, 1.5, 0.5, 0};  // forward, input gradient, weight gradient
constexpr PassTimes kEqual{1.0, 1.0, 1.0, 0};

TEST(Schedules, OneForwardOneBackwardHasTheKnownBubble) {
  for (const auto& [stages, micro] : {std::pair{4, 8}, {8, 8}, {8, 64}, {1, 5}}) {
    const PipelineTimes t = run(schedule_of(ScheduleKind::one_f_one_b, stages, micro), kPass);
    EXPECT_NEAR(t.makespan, (micro + stages - 1) * 3.0, 1e-9) << stages << " stages";
  }
}

TEST(Schedules, GpipeHasTheSameBubbleAndHoldsEveryMicroBatch) {
  const Schedule schedule = schedule_of(ScheduleKind::gpipe, 4, 8);
  EXPECT_NEAR(run(schedule, kPass).makespan, (8 + 3) * 3.0, 1e-9);
  EXPECT_EQ(peak_in_flight(schedule, 0), 8);
  EXPECT_EQ(peak_in_flight(schedule_of(ScheduleKind::one_f_one_b, 4, 8), 0), 4);
}

TEST(Schedules, InterleavingDividesTheBubbleByItsChunks) {
  for (const auto& [stages, micro, chunks] : {std::tuple{4, 8, 2}, {8, 16, 4}, {16, 32, 4}}) {
    const PipelineTimes t =
        run(schedule_of(ScheduleKind::interleaved, stages, micro, chunks), kPass);
    const double work = micro * chunks * 3.0;
    EXPECT_NEAR(t.makespan - work, (stages - 1) * 3.0, 1e-9)
        << stages << " stages";  // a chunk is 1 / chunks of a stage
  }
}

TEST(Schedules, ZeroBubbleOneKeepsAThirdOfTheBubbleForEqualPasses) {
  for (const auto& [stages, micro] : {std::pair{4, 8}, {8, 24}, {16, 64}}) {
    const Schedule schedule = schedule_of(ScheduleKind::zb_h1, stages, micro);
    const PipelineTimes t = run(schedule, kEqual);
    // (PP - 1)(F + B - 2 W) with B the whole backward pass.
    EXPECT_NEAR(t.makespan - micro * 3.0, stages - 1, 1e-9) << stages << " stages";
    EXPECT_LE(peak_in_flight(schedule, 0), stages);
  }
}

TEST(Schedules, TheVeeHasNoBubbleForEqualPassesWhenStagesNeedNotMeet) {
  for (const auto& [stages, micro] : {std::pair{4, 8}, {4, 16}, {8, 32}}) {
    const Schedule schedule = schedule_of(ScheduleKind::zbv, stages, micro);
    const PipelineTimes t = run(schedule, kEqual);
    EXPECT_NEAR(t.span, micro * 2 * 3.0, 1e-9) << stages << " stages, " << micro;
    for (int stage = 0; stage < stages; ++stage)
      EXPECT_LE(peak_in_flight(schedule, stage), 2 * stages);
  }
}

TEST(Schedules, DualPipeHasThePublishedBubble) {
  for (const auto& [stages, micro] : {std::pair{4, 8}, {8, 20}, {8, 40}, {16, 64}}) {
    const PassTimes pass{1.0, 1.0, 1.0, 2.6};
    const PipelineTimes t = run(schedule_of(ScheduleKind::dualpipe, stages, micro), pass);
    // (PP / 2 - 1)(F&B + B - 3 W), B the whole backward pass.
    double bubble = 0;
    for (const StageTimes& stage : t.stages) bubble = std::max(bubble, t.makespan - stage.busy);
    EXPECT_NEAR(bubble, (stages / 2 - 1) * (2.6 + 2.0 - 3.0), 1e-9) << stages << " stages";
    EXPECT_LT(t.makespan,
              run(schedule_of(ScheduleKind::one_f_one_b, stages, micro), pass).makespan);
  }
}

TEST(Schedules, EveryPassHappensOnceAndNoScheduleBeatsItsBound) {
  const std::vector<std::tuple<ScheduleKind, int, int64_t, int>> all = {
      {ScheduleKind::gpipe, 4, 6, 1},       {ScheduleKind::one_f_one_b, 6, 7, 1},
      {ScheduleKind::interleaved, 4, 8, 3}, {ScheduleKind::zb_h1, 5, 9, 1},
      {ScheduleKind::zbv, 4, 7, 1},         {ScheduleKind::dualpipe, 6, 16, 1},
      {ScheduleKind::one_f_one_b, 1, 1, 1}, {ScheduleKind::zb_h1, 1, 3, 1},
      {ScheduleKind::zbv, 1, 3, 1},         {ScheduleKind::interleaved, 1, 3, 2}};
  for (const auto& [kind, stages, micro, chunks] : all) {
    const Schedule schedule = schedule_of(kind, stages, micro, chunks);
    std::map<std::tuple<int, int, int>, int> forwards, backwards, weights;
    for (int s = 0; s < stages; ++s) {
      for (const PipelineTask& t : schedule.order[static_cast<size_t>(s)]) {
        const bool pair = t.pass == Pass::both;
        if (pair || t.pass == Pass::forward) ++forwards[{s, t.chunk, t.micro}];
        const auto back = pair ? std::tuple<int, int, int>{s, t.other_chunk, t.other_micro}
                               : std::tuple<int, int, int>{s, t.chunk, t.micro};
        if (pair || t.pass == Pass::backward || t.pass == Pass::backward_input) ++backwards[back];
        if (pair || t.pass == Pass::backward || t.pass == Pass::backward_weight) ++weights[back];
      }
    }
    const size_t passes = static_cast<size_t>(stages * micro) *
                          static_cast<size_t>(schedule.chunks) /
                          (schedule.placement == ChunkPlacement::mirrored ? 2 : 1);
    for (const auto* counts : {&forwards, &backwards, &weights}) {
      EXPECT_EQ(counts->size(), passes) << to_string(kind);
      for (const auto& [key, count] : *counts) EXPECT_EQ(count, 1) << to_string(kind);
    }
    const PipelineTimes t = run(schedule, kPass, 0.1);
    double busiest = 0;
    for (const StageTimes& stage : t.stages) busiest = std::max(busiest, stage.busy);
    const bool mirrored = schedule.placement == ChunkPlacement::mirrored;
    const double through = stages * (mirrored ? 1 : schedule.chunks) * (1.0 + 1.5);
    EXPECT_GE(t.makespan + 1e-9, std::max(busiest, through)) << to_string(kind);
  }
}

TEST(Schedules, LongerPassesNeverShortenAStep) {
  for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::interleaved,
                                  ScheduleKind::zb_h1, ScheduleKind::zbv, ScheduleKind::dualpipe}) {
    const int chunks = kind == ScheduleKind::interleaved ? 2 : 1;
    const Schedule schedule = schedule_of(kind, 4, 8, chunks);
    const double before = run(schedule, kPass).makespan;
    EXPECT_GE(run(schedule, {1.2, 1.5, 0.5, 0}).makespan, before) << to_string(kind);
    EXPECT_GE(run(schedule, {1.0, 1.5, 0.9, 0}).makespan, before) << to_string(kind);
    EXPECT_GE(run(schedule, kPass, 0.3).makespan, before) << to_string(kind);
  }
}

TEST(Schedules, WhatAScheduleCannotDoIsSaidInOneSentence) {
  const auto message = [](const ScheduleRequest& request) {
    try {
      make_schedule(request);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::config);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message({ScheduleKind::interleaved, 4, 2, 6}),
              HasSubstr("6 micro-batches are not divisible by pp 4"));
  EXPECT_THAT(message({ScheduleKind::dualpipe, 4, 1, 6}), HasSubstr("at least 2 * pp"));
  EXPECT_THAT(message({ScheduleKind::one_f_one_b, 4, 2, 8}), HasSubstr("one chunk a stage"));
}

}  // namespace
}  // namespace dettax
