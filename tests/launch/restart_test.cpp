// Restarts of real processes.
#include <algorithm>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/launch/restart_run.h"
#include "support.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;

TEST(RestartRun, EndsItsProcessesAndGoesOnWithEqualBitsUnlessAnItemIsLeftOut) {
  const testing::TemporaryFolder folder;
  const Suite suite = testing::tiny_suite(folder.path(), "  - {layout: dp2.zero1}\n");
  const auto launcher = make_thread_launcher(testing::launch_settings(folder.path()));
  const ArmSpec spec{"deterministic", suite.cases.front(), suite.modes.front()};
  RestartSettings settings;
  settings.steps = 2;
  settings.save_at = 1;
  settings.folder = folder.path() / "whole";
  std::filesystem::create_directories(settings.folder);
  const RestartVerdict whole = run_restart_check(spec, *launcher, settings);
  EXPECT_EQ(whole.code(), ExitCode::pass);
  EXPECT_EQ(whole.items.size(), 6U);
  EXPECT_GT(whole.after.compared, 100);

  settings.folder = folder.path() / "without";
  std::filesystem::create_directories(settings.folder);
  settings.leave_out = {"optimizer.second_moment"};
  const RestartVerdict without = run_restart_check(spec, *launcher, settings);
  EXPECT_EQ(without.code(), ExitCode::not_bit_exact);
  EXPECT_TRUE(without.before.equal);
  EXPECT_FALSE(without.after.equal);
  for (const RestartItem& item : without.items) EXPECT_EQ(item.left_out, !item.same) << item.item;
  EXPECT_EQ(std::ranges::count_if(without.items, &RestartItem::left_out), 1);
}

TEST(RestartRun, SaysWhatIsWrongWithACheckpointThatIsNone) {
  const testing::TemporaryFolder folder;
  EXPECT_THAT(why_no_checkpoint(folder.path()), HasSubstr("has no complete checkpoint"));
  const std::filesystem::path damaged = folder.path() / "step_00000001";
  std::filesystem::create_directories(damaged);
  std::ofstream(damaged / "manifest.json") << "{";
  EXPECT_THAT(why_no_checkpoint(folder.path()), HasSubstr("step_00000001/manifest.json"));
}

}  // namespace
}  // namespace dettax
