// Slow-downs of known size are put into a simulated loop (simulation.h) and must come out in the right row, with the right size.
#include "profiles/attribution.h"

#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "profiles/row_table.h"
#include "tests/profiles/simulation.h"

namespace dettax {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr double kUs = 1e-6;

Attribution attribute_loops(const SimulatedLoop& fast, SimulatedLoop deterministic,
                            const AttributionOptions& options = {}) {
  deterministic.seed = fast.seed + 1000;
  return attribute(simulate(fast), simulate(deterministic), options);
}

double delta_of(const Attribution& attribution, Mechanism mechanism) {
  for (const MechanismRow& row : attribution.mechanisms) {
    if (row.mechanism == mechanism) return row.time.delta_seconds;
  }
  return 0;
}

const AttributionRow* row_of(const Attribution& attribution, const std::string& path,
                             Mechanism mechanism) {
  for (const AttributionRow& row : attribution.rows) {
    if (row.path == path && row.mechanism == mechanism) return &row;
  }
  return nullptr;
}

// Within a tenth of what was put in, or within the row's own interval.
void expect_found(const AttributedTime& time, double seconds) {
  const bool near = std::abs(time.delta_seconds - seconds) <= 0.1 * seconds;
  const bool inside = time.delta && time.delta->low <= seconds && seconds <= time.delta->high;
  EXPECT_TRUE(near || inside) << time.delta_seconds << " for " << seconds;
}

void expect_closed(const Attribution& attribution) {
  double rows = 0, mechanisms = attribution.unmapped.delta_seconds;
  for (const AttributionRow& row : attribution.rows) rows += row.time.delta_seconds;
  for (const MechanismRow& row : attribution.mechanisms) mechanisms += row.time.delta_seconds;
  EXPECT_NEAR(rows, attribution.step.delta_seconds, 1e-12);
  EXPECT_NEAR(mechanisms, attribution.step.delta_seconds, 1e-12);
}

TEST(Attribution, OfEqualLoopsFindsNothing) {
  const Attribution attribution = attribute_loops({}, {});
  expect_closed(attribution);
  EXPECT_NEAR(attribution.step.delta_seconds, 0, 2 * kUs);
  EXPECT_EQ(attribution.fast.steps, 5);  // the last step of a capture has no end
  for (const MechanismRow& row : attribution.mechanisms)
    EXPECT_NEAR(row.time.delta_seconds, 0, 2 * kUs);
}

TEST(Attribution, FindsASlowerOp) {
  SimulatedLoop slow;
  slow.slow_op_ns = 80'000;
  const Attribution attribution = attribute_loops({}, slow);
  expect_closed(attribution);
  const AttributionRow* row = row_of(attribution, "backward/layer1/attention", Mechanism::compute);
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(&attribution.rows.front(), row);
  expect_found(row->time, 80 * kUs);
  expect_found(attribution.step, 80 * kUs);
}

TEST(Attribution, FindsASlowerCollective) {
  SimulatedLoop slow;
  slow.slow_collective_ns = 90'000;
  const Attribution attribution = attribute_loops({}, slow);
  expect_closed(attribution);
  const AttributionRow* row =
      row_of(attribution, "backward/layer0/all_reduce", Mechanism::communication_transfer);
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(&attribution.rows.front(), row);
  expect_found(row->time, 90 * kUs);
}

TEST(Attribution, FindsAFillInFrontOfEachBuffer) {
  SimulatedLoop filling;
  filling.fill_ns = 6'500;
  const Attribution attribution = attribute_loops({}, filling);
  expect_closed(attribution);
  const double filled = 6 * 6.6 * kUs;  // three layers of two, and their jitter
  ASSERT_EQ(attribution.mechanisms.front().mechanism, Mechanism::memory_fill);
  expect_found(attribution.mechanisms.front().time, filled);
  EXPECT_DOUBLE_EQ(attribution.mechanisms.front().deterministic_count, 6);
  EXPECT_EQ(row_of(attribution, "forward/layer2/empty", Mechanism::memory_fill)->match,
            KeyMatch::deterministic_only);
  EXPECT_THAT(attribution.advice, Contains(HasSubstr("touches no order of summation")));
}

TEST(Attribution, FindsALostOverlap) {
  SimulatedLoop serial;
  serial.overlap = false;
  const Attribution attribution = attribute_loops({}, serial);
  expect_closed(attribution);
  // The two all-reduces that lay under the backward pass come out from under it; the last was exposed before.
  expect_found({0, 0, delta_of(attribution, Mechanism::communication_transfer), {}}, 2 * 140 * kUs);
  EXPECT_NEAR(delta_of(attribution, Mechanism::compute), 0, 3 * kUs);
  const AttributionRow* row =
      row_of(attribution, "backward/layer2/all_reduce", Mechanism::communication_transfer);
  EXPECT_NEAR(row->hidden_delta_seconds, -140 * kUs, 3 * kUs);
}

TEST(Attribution, FindsALaunchGap) {
  SimulatedLoop late;
  late.launch_gap_ns = 70'000;
  const Attribution attribution = attribute_loops({}, late);
  expect_closed(attribution);
  const AttributionRow* row = row_of(attribution, "optimizer/adam", Mechanism::idle_host);
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(&attribution.rows.front(), row);
  expect_found(row->time, 70 * kUs);
}

TEST(Attribution, FindsASlowRankAndWhoWaitsForIt) {
  SimulatedLoop uneven;
  uneven.slow_rank_ns = 100'000;
  const Attribution attribution = attribute_loops({}, uneven);
  expect_closed(attribution);
  // Half of the ranks compute for longer, the other half waits for as long.
  expect_found(row_of(attribution, "backward/layer0/mlp", Mechanism::compute)->time, 50 * kUs);
  expect_found(
      row_of(attribution, "backward/layer0/all_reduce", Mechanism::communication_wait)->time,
      50 * kUs);
  expect_found(attribution.step, 100 * kUs);
}

TEST(Attribution, FindsTwoCausesAtOnce) {
  SimulatedLoop both;
  both.slow_op_ns = 80'000;
  both.launch_gap_ns = 40'000;
  const Attribution first = attribute_loops({}, both);
  expect_closed(first);
  expect_found(row_of(first, "backward/layer1/attention", Mechanism::compute)->time, 80 * kUs);
  expect_found(row_of(first, "optimizer/adam", Mechanism::idle_host)->time, 40 * kUs);

  SimulatedLoop others;
  others.slow_collective_ns = 60'000;
  others.fill_ns = 10'000;
  const Attribution second = attribute_loops({}, others);
  expect_closed(second);
  expect_found(
      row_of(second, "backward/layer0/all_reduce", Mechanism::communication_transfer)->time,
      60 * kUs);
  expect_found({0, 0, delta_of(second, Mechanism::memory_fill), {}}, 6 * 10.1 * kUs);
}

TEST(Attribution, KeysByPathWhereKernelsAreReplaced) {
  SimulatedLoop replaced;
  replaced.second_kernel = true;
  const Attribution attribution = attribute_loops({}, replaced);
  const AttributionRow* row = row_of(attribution, "backward/layer1/attention", Mechanism::compute);
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->match, KeyMatch::both);
  EXPECT_DOUBLE_EQ(row->fast_count, 1);
  EXPECT_DOUBLE_EQ(row->deterministic_count, 2);
  EXPECT_EQ(row->fast_work, "attention_backward_atomic");
  EXPECT_EQ(row->deterministic_work, "attention_backward_ordered");
  expect_found(row->time, 20 * kUs);
}

TEST(Attribution, SplitsWaitingOnlyWhereTheOtherRankIsThere) {
  SimulatedLoop uneven;
  uneven.slow_rank_ns = 100'000;
  std::vector<Trace> fast = simulate({}), slow = simulate(uneven);
  fast.resize(1);
  slow.resize(1);
  const Attribution attribution = attribute(fast, slow);
  EXPECT_EQ(delta_of(attribution, Mechanism::communication_wait), 0);
  EXPECT_NEAR(delta_of(attribution, Mechanism::communication_unsplit), 100 * kUs, 2 * kUs);
  EXPECT_THAT(attribution.notes, Contains(HasSubstr("not every member's trace is there")));
}

TEST(Attribution, DoesNotSplitWaitingByClocksThatCannotBeCommon) {
  std::vector<Trace> fast = simulate({}), slow = simulate({});
  for (Span& span : slow[1].spans) {
    span.start_ns += 5'000'000;
    span.end_ns += 5'000'000;
  }
  const Attribution attribution = attribute(fast, slow);
  EXPECT_THAT(attribution.notes, Contains(HasSubstr("their clocks differ")));
  EXPECT_LT(delta_of(attribution, Mechanism::communication_transfer), 0);
  EXPECT_GT(delta_of(attribution, Mechanism::communication_unsplit), 0);
}

TEST(Attribution, DoesNotSplitWaitingAcrossHosts) {
  std::vector<Trace> fast = simulate({}), slow = simulate({});
  slow[1].host = "other";
  EXPECT_THAT(attribute(fast, slow).notes, Contains(HasSubstr("on different hosts")));
}

TEST(Attribution, TellsDistortionWhereTheUnprofiledTimesAreTold) {
  SimulatedLoop slow;
  slow.slow_op_ns = 80'000;
  AttributionOptions options;
  options.unprofiled = {1e-3, 1.1e-3};
  const Attribution attribution = attribute_loops({}, slow, options);
  ASSERT_TRUE(attribution.distortion_seconds);
  EXPECT_NEAR(*attribution.distortion_seconds + attribution.step.delta_seconds, 1e-4, 1e-12);
  EXPECT_FALSE(attribute_loops({}, slow).distortion_seconds);
}

TEST(Attribution, RowsByOrdinalAddUpToRowsByPath) {
  SimulatedLoop filling;
  filling.fill_ns = 6'500;
  AttributionOptions options;
  options.by_ordinal = true;
  const Attribution apart = attribute_loops({}, filling, options),
                    together = attribute_loops({}, filling);
  expect_closed(apart);
  EXPECT_GT(apart.rows.size(), together.rows.size());
  double seconds = 0;
  for (const AttributionRow& row : apart.rows) {
    ASSERT_TRUE(row.ordinal);
    if (row.path == "forward/layer0/empty" && row.mechanism == Mechanism::memory_fill)
      seconds += row.time.delta_seconds;
  }
  EXPECT_NEAR(seconds,
              row_of(together, "forward/layer0/empty", Mechanism::memory_fill)->time.delta_seconds,
              1e-12);
}

std::string refusal(const std::function<void()>& body, ErrorKind kind) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(Attribution, RefusesOtherRanks) {
  SimulatedLoop one;
  one.ranks = 1;
  EXPECT_EQ(refusal([&] { attribute(simulate({}), simulate(one)); }, ErrorKind::usage),
            "the fast traces are of rank 0, 1, the deterministic ones of rank 0; both must be of "
            "the same ranks");
}

TEST(Attribution, RefusesOtherRanksOfSingleFilesWhereBothAreKnown) {
  const std::vector<Trace> traces = simulate({});
  EXPECT_EQ(refusal([&] { attribute({traces[0]}, {traces[1]}); }, ErrorKind::usage),
            "the fast traces are of rank 0, the deterministic ones of rank 1; both must be of the "
            "same ranks");
  Trace unknown = traces[1];
  unknown.rank.reset();
  EXPECT_NO_THROW(attribute({traces[0]}, {unknown}));
}

TEST(Attribution, RefusesDroppedRecords) {
  std::vector<Trace> lossy = simulate({});
  lossy[1].losses.dropped = 3;
  EXPECT_THAT(refusal([&] { attribute(simulate({}), lossy); }, ErrorKind::infrastructure),
              HasSubstr("rank1: the profiler lost 3 records"));
}

TEST(Attribution, RefusesMoreUnmappedTimeThanItsLimit) {
  std::vector<Trace> fast = simulate({}), blind = simulate({});
  for (Trace& trace : blind) {
    for (Span& span : trace.spans) {
      if (trace.paths[span.path] == "backward/layer1/mlp") span.path = 0;
    }
  }
  EXPECT_THAT(refusal([&] { attribute(fast, blind); }, ErrorKind::infrastructure),
              HasSubstr("in the deterministic arm"));
  AttributionOptions wide;
  wide.unmapped_ratio_max = 0.5;
  const Attribution attribution = attribute(fast, blind, wide);
  EXPECT_NEAR(attribution.unmapped.delta_seconds, 300 * kUs, 2 * kUs);
  EXPECT_NEAR(delta_of(attribution, Mechanism::compute), -300 * kUs, 5 * kUs);
  expect_closed(attribution);
}

TEST(Attribution, NeverPassesRowsThatDoNotAddUp) {
  const std::vector<Trace> traces = simulate({});
  std::vector<std::vector<StepPartition>> ranks;
  for (const Trace& trace : traces) ranks.push_back(partition(trace, step_windows(trace), {}));
  RowTable table(false);
  const ArmPartition arm = common_steps(std::move(ranks));
  table.add(Arm::fast, arm, traces);
  table.add(Arm::deterministic, arm, traces);
  EXPECT_NO_THROW(table.check());
  table.rows().begin()->second.arms[1].owned_ns[2] += 1;
  EXPECT_THROW(table.check(), Error);
}

TEST(Attribution, ComparesOnlyStepsThatAllRanksHaveWhole) {
  std::vector<Trace> fast = simulate({}), lossy = simulate({});
  // One kernel of step 2 on rank 1 is gone; its step and the one whose end it marks are left out on both ranks.
  Trace& trace = lossy[1];
  const StepMark mark = trace.steps[2];
  const auto launches = launches_of_work(trace);
  for (size_t i = 0; i < trace.spans.size(); ++i) {
    if (launches[i] < 0) continue;
    const int64_t launched = trace.spans[static_cast<size_t>(launches[i])].start_ns;
    if (launched < mark.start_ns + 100'000 || launched > mark.end_ns) continue;
    trace.spans.erase(trace.spans.begin() + static_cast<std::ptrdiff_t>(i));
    break;
  }
  const Attribution attribution = attribute(fast, lossy);
  EXPECT_EQ(attribution.fast.steps, 5);
  EXPECT_EQ(attribution.deterministic.steps, 4);
  EXPECT_THAT(attribution.notes, Contains(HasSubstr("left out: step 2, as")));
  EXPECT_NEAR(attribution.step.delta_seconds, 0, 2 * kUs);
}

}  // namespace
}  // namespace dettax
