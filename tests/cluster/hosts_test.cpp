// Ranks over four hosts that are network namespaces, started by mpirun, and what becomes of a run when
// a rank, a host or the network goes.
#include <csignal>

#include <gmock/gmock.h>

#include "tests/cluster/cluster.h"

namespace dettax {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using namespace testing;  // NOLINT(google-build-using-namespace): helpers of this folder

class Hosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_cluster({"ip", "tc", "nsenter", "mpirun"});
        !reason.empty()) {
      GTEST_SKIP() << reason;
    }
    hosts("down");
    up_ = hosts("up 4") == 0;
    ASSERT_TRUE(up_);
    ASSERT_EQ(hosts("rate 200mbit"), 0);
  }
  void TearDown() override {
    if (up_) hosts("down");
  }

  std::string in_shell(const std::string& what) const {
    return "HOSTS_PREFIX=" + prefix_ + " " + cluster_script("hosts.sh") + " " + what;
  }
  int hosts(const std::string& what) const {
    return std::system(
        (in_shell(what) + " >/dev/null 2>&1").c_str());  // NOLINT(concurrency-mt-unsafe)
  }

  // dettax on h1.
  Process start_run(const std::string& suite, const std::string& flags = "--nodes 4") {
    const std::map<std::string, std::string> environment = {
        {"HOSTS_PREFIX", prefix_},
        {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
        {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
        {"OMPI_MCA_plm", "rsh"},
        {"OMPI_MCA_plm_rsh_agent", cluster_script("hosts.sh") + " agent"},
        {"OMPI_MCA_plm_rsh_no_tree_spawn", "1"},
        {"OMPI_MCA_orte_keep_fqdn_hostnames", "1"},
        {"OMPI_MCA_oob_tcp_if_include", "veth0"},
        {"OMPI_MCA_pml", "ob1"},
        {"OMPI_MCA_btl", "self,tcp"},
        {"OMPI_MCA_btl_tcp_if_include", "veth0"},
        {"OMPI_MCA_mpi_yield_when_idle", "1"}};
    return start_shell(in_shell("exec h1 ") + DETTAX_PROGRAM + " run " + suite +
                           " --launcher mpirun --nodelist h[1-4] " + flags + " --output-dir " +
                           (folder_.path() / "runs").string(),
                       log(), environment);
  }
  std::filesystem::path log() const { return folder_.path() / "run.log"; }
  std::string suite(const std::string& cases, const std::string& measure, bool relaunch) const {
    return write_suite(folder_.path(), cluster_suite_yaml(cases, measure, relaunch));
  }
  // Ranks of all arms that run on a host.
  std::vector<int> ranks_on(const std::string& host) const {
    std::istringstream pids(output_of(in_shell("pids " + host)));
    std::vector<int> ranks;
    for (int pid = 0; pids >> pid;) {
      const std::string command = read_text("/proc/" + std::to_string(pid) + "/cmdline");
      if (command.starts_with(std::string(DETTAX_PROGRAM) + '\0' + "worker")) ranks.push_back(pid);
    }
    return ranks;
  }
  // Two cases, of which the first is measured until `strike` has hit it; their records.
  std::vector<Record> struck(const std::function<void()>& strike);

  const std::string prefix_ = "dxt" + std::to_string(::getpid());
  TemporaryFolder folder_;
  bool up_ = false;
};

std::vector<Record> Hosts::struck(const std::function<void()>& strike) {
  Process run = start_run(suite("  - {label: struck}\n  - {label: next}\n", kLongMeasure, false));
  const auto said = [&](const char* words) {
    return read_text(log()).find(words) != std::string::npos;
  };
  EXPECT_TRUE(wait_until(60, [&] { return said("struck: measuring"); })) << read_text(log());
  std::this_thread::sleep_for(std::chrono::seconds(1));
  strike();
  EXPECT_TRUE(run.wait(120)) << read_text(log());
  return only_run(folder_.path() / "runs").records();
}

TEST_F(Hosts, HaveTheLedgerOfOneProcess) {
  const std::string file = suite("  - {}\n", kShortMeasure, true);
  Process run = start_run(file);
  ASSERT_TRUE(run.wait(120)) << read_text(log());
  const Record record = only_run(folder_.path() / "runs").records().at(0);
  EXPECT_EQ(digest_of(record, "deterministic"), digest_of_threads(folder_.path(), file))
      << record.verdict.reason;
  const ArmResult& arm = arm_of(record, "deterministic");
  ASSERT_THAT(arm.places, SizeIs(4));
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(arm.places[rank].host, "h" + std::to_string(rank + 1));
  }
  EXPECT_EQ(arm.engaged.at("nodes"), "4 (emulated on one machine)");
  const ScopeEvidence& elsewhere = find_evidence(record, "deterministic")->scopes.at(2);
  EXPECT_EQ(elsewhere.scope, "other_allocation");
  EXPECT_TRUE(elsewhere.tested && elsewhere.equal) << elsewhere.first_difference;
}

// Two nodes are two of the hosts, with a slower link between them emulated on top.
TEST_F(Hosts, HaveTheLedgerOfOneProcessOverASlowLink) {
  const std::string flags =
      " --case '*.dp2.tp2.*.slow_link' -C measure.rounds_max=3 -C measure.rounds_min=3 "
      "-C measure.budget_seconds=1 -C measure.step_timeout_seconds=10 ";
  Process run = start_run("topology", flags);
  ASSERT_TRUE(run.wait(120)) << read_text(log());
  Process threads =
      start_shell(std::string(DETTAX_PROGRAM) + " run topology --no-progress --output-dir " +
                      (folder_.path() / "threads").string() + flags,
                  folder_.path() / "threads.log");
  ASSERT_TRUE(threads.wait(120)) << read_text(folder_.path() / "threads.log");
  const Record found = only_run(folder_.path() / "runs").records().at(0);
  const Record expected = only_run(folder_.path() / "threads").records().at(0);
  EXPECT_EQ(found.case_id, expected.case_id);
  EXPECT_EQ(digest_of(found, "deterministic"), digest_of(expected, "deterministic"))
      << found.verdict.reason;
  const std::map<std::string, std::string>& engaged = arm_of(found, "deterministic").engaged;
  EXPECT_EQ(engaged.at("nodes"), "2 (emulated on one machine)");
  EXPECT_EQ(engaged.at("links"), "between nodes 119 MiB/s and 50.0 us (emulated)");
}

TEST_F(Hosts, AKilledRankEndsItsArmAndTheRunGoesOn) {
  const std::vector<Record> records = struck([&] {
    const std::vector<int> ranks = ranks_on("h3");
    ASSERT_THAT(ranks, SizeIs(3));  // fast, control, deterministic
    ::kill(ranks.front(), SIGKILL);
  });
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0].verdict.reason_code, "rank_crashed");
  EXPECT_THAT(records[0].verdict.reason, AllOf(HasSubstr("rank 2"), HasSubstr("host h3")));
  EXPECT_FALSE(records[1].taxes.empty()) << records[1].verdict.reason;
}

TEST_F(Hosts, AKilledHostIsNamedAndTheRunGoesOn) {
  const std::vector<Record> records = struck([&] {
    std::istringstream pids(output_of(in_shell("pids h3")));
    for (int pid = 0; pids >> pid;) ::kill(pid, SIGKILL);
  });
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0].verdict.status, Status::error);
  EXPECT_THAT(records[0].verdict.reason, AllOf(HasSubstr("rank 2"), HasSubstr("host h3")));
  EXPECT_FALSE(records[1].taxes.empty()) << records[1].verdict.reason;
}

TEST_F(Hosts, ACutNetworkIsNamedWithinTheWatchdogsTimeAndTheRunGoesOn) {
  const std::vector<Record> records = struck([&] {
    hosts("cut h3");
    std::this_thread::sleep_for(std::chrono::seconds(9));  // the watchdog has 5
    hosts("mend h3");
  });
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0].verdict.reason_code, "hang");
  EXPECT_THAT(records[0].verdict.reason,
              AllOf(HasSubstr("host h3 with rank 2 does not answer any more")));
  EXPECT_FALSE(records[1].taxes.empty()) << records[1].verdict.reason;
}

}  // namespace
}  // namespace dettax
