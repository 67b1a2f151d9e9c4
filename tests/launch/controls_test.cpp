// Positive controls through a group of processes: needs the dettax program.
#include "harness/launch/controls.h"

#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/evidence/knob_places.h"
#include "tests/launch/support.h"

namespace dettax {
namespace {

using testing::launch_settings;
using testing::TemporaryFolder;
using testing::tiny_suite;

constexpr double kAnyTime = 1e6;

class Controls : public ::testing::Test {
 protected:
  std::map<std::string, KnobControl> run(double cap_seconds) {
    const Suite suite = tiny_suite(
        folder_.path(),
        "  - {layout: dp1, threads: 2, batch: {micro: 4, global: 4, sequence_length: 256}}\n");
    LaunchSettings settings = launch_settings(folder_.path());
    settings.step_timeout_seconds = 60;
    ControlRuns controls({"deterministic", suite.cases.at(0), suite.modes.at(0)},
                         {suite.evidence.steps, cap_seconds, folder_.path(), [](const auto&) {}});
    controls.run(*make_thread_launcher(settings));
    std::map<std::string, KnobControl> rows;
    for (const KnobControl& row : controls.rows()) rows[row.knob] = row;
    return rows;
  }
  TemporaryFolder folder_;
};

TEST_F(Controls, CatchEachKnobWeakenedAloneAtItsOp) {
  const auto rows = run(kAnyTime);
  for (const char* knob :
       {"gemm", "attention", "embedding", "norm", "loss", "grad_norm", "schedule"}) {
    const KnobControl& row = rows.at(knob);
    EXPECT_EQ(row.status, ControlStatus::caught) << knob << ": " << row.reason;
    EXPECT_TRUE(acts_at(knob_named(knob), row.first_op)) << knob << ": " << row.first_op;
    EXPECT_GE(row.runs, 2) << knob;
  }
  EXPECT_EQ(rows.at("collectives").status, ControlStatus::not_shown);
  EXPECT_EQ(rows.at("collectives").reason, "one rank");
}

TEST_F(Controls, SayWhenTheirTimeWasSpent) {
  const auto rows = run(0);
  EXPECT_EQ(rows.at("gemm").status, ControlStatus::not_run);
  EXPECT_EQ(rows.at("gemm").reason, "the time for controls was spent");
  EXPECT_EQ(rows.at("collectives").reason, "one rank");
}

}  // namespace
}  // namespace dettax
