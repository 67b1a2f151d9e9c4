// Nodes and links that are emulated, with ranks as threads: needs the dettax program.
#include <algorithm>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/support.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;
using testing::launch_settings;
using testing::read_text;
using testing::TemporaryFolder;
using testing::tiny_suite;

struct TopologyRun {
  std::string ledger;
  std::map<std::string, std::string> engaged;
  double step_seconds = 0;  // of the fastest step
};

TopologyRun run_topology(const std::string& topology, const std::string& mode = "deterministic") {
  const TemporaryFolder folder;
  const Suite suite = tiny_suite(
      folder.path(),
      "  - {layout: dp4, batch: {micro: 1, global: 4, sequence_length: 32}, topology: " + topology +
          "}\n",
      "[" + mode + "]");
  LaunchSettings settings = launch_settings(folder.path());
  settings.step_timeout_seconds = 20;
  const auto group =
      make_thread_launcher(settings)->start({mode, suite.cases.at(0), suite.modes.at(0)}, mode);
  const StepsRun run = group->run_steps(3);
  group->write_ledger(1, 2, folder.path() / "ledger");
  const auto& steps = run.step_time_seconds.at(0);
  return {read_text(folder.path() / "ledger"), group->engaged(),
          *std::min_element(steps.begin(), steps.end())};
}

TEST(EmulatedTopology, IsSaidAndChangesNoBitOfAnOrderedMode) {
  const TopologyRun flat = run_topology("{nodes: 1}");
  const TopologyRun slow = run_topology(
      "{nodes: 2, links: {inter_node: {bytes_per_second: 1e9, latency_seconds: 0.002}}}");
  EXPECT_EQ(flat.engaged.at("nodes"), "1");
  EXPECT_EQ(flat.engaged.count("links"), 0U);
  EXPECT_EQ(slow.engaged.at("nodes"), "2 (emulated in one process)");
  EXPECT_EQ(slow.engaged.at("links"), "between nodes 954 MiB/s and 2.00 ms (emulated)");
  EXPECT_GT(flat.ledger.size(), 1000U);
  EXPECT_EQ(flat.ledger, slow.ledger);
  EXPECT_NE(flat.ledger, run_topology("{nodes: 1}", "invariant").ledger);
}

// By waiting, so a step cannot be shorter than one message on its way, however fast the machine is.
TEST(EmulatedTopology, ASlowLinkHoldsUpEveryStep) {
  EXPECT_GT(run_topology("{nodes: 2, links: {inter_node: {latency_seconds: 0.2}}}").step_seconds,
            0.2);
}

}  // namespace
}  // namespace dettax
