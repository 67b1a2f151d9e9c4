// Far more ranks than cores, as processes of this host.
#include <gmock/gmock.h>

#include "harness/launch/process_launcher.h"
#include "harness/launch/rank_pool.h"
#include "tests/cluster/cluster.h"

namespace dettax {
namespace {

using ::testing::SizeIs;
using namespace testing;  // NOLINT(google-build-using-namespace): helpers of this folder

TEST(Oversubscribed, SixteenRanksFinishWithTheLedgerOfThreads) {
  if (const std::string reason = why_no_cluster({"mpirun"}); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);          // NOLINT(concurrency-mt-unsafe)
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);  // NOLINT(concurrency-mt-unsafe)
  const TemporaryFolder folder;
  const Suite suite = tiny_suite(
      folder.path(), "  - {layout: dp16, batch: {micro: 1, global: 16, sequence_length: 32}}\n");
  LaunchSettings settings = launch_settings(folder.path());
  settings.step_timeout_seconds = 30;
  ProcessSettings processes;
  processes.job = find_job({}, process_variables());
  processes.job.cores_per_host = available_cores();
  const ArmSpec spec{"deterministic", suite.cases.at(0), suite.modes.at(0)};

  const auto many = make_process_launcher(settings, processes)->start(spec, "processes");
  EXPECT_THAT(many->run_steps(3).step_time_seconds, SizeIs(16));
  many->write_ledger(1, 2, folder.path() / "processes");
  many->write_ledger(2, 2, folder.path() / "other seed");
  const auto threads = make_thread_launcher(settings)->start(spec, "threads");
  threads->write_ledger(1, 2, folder.path() / "threads");
  const std::string ledger = read_text(folder.path() / "processes");
  EXPECT_GT(ledger.size(), 1000U);
  EXPECT_EQ(ledger, read_text(folder.path() / "threads"));
  EXPECT_NE(ledger, read_text(folder.path() / "other seed"));
}

}  // namespace
}  // namespace dettax
