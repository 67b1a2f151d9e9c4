// Whole runs inside jobs of a private Slurm, by the templates that users get.
#include <gmock/gmock.h>

#include "tests/cluster/cluster.h"

namespace dettax {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using namespace testing;  // NOLINT(google-build-using-namespace): helpers of this folder

class Slurm : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason =
            why_no_cluster({"slurmctld", "slurmd", "munged", "srun", "mpirun"});
        !reason.empty()) {
      GTEST_SKIP() << reason;
    }
    up_ = true;
    // A port may be taken by anybody; then others are tried. All are under those that the kernel gives away by itself.
    bool answers = false;
    for (int attempt = 0; !answers && attempt < 3; ++attempt)
      answers = start(20000 + (::getpid() * 8 + attempt * 4001) % 12000);
    ASSERT_TRUE(answers) << read_text(folder_.path() / "slurm.log");
    for (const auto& [name, value] :
         std::map<std::string, std::string>{{"SLURM_CONF", (home() / "slurm.conf").string()},
                                            {"DETTAX", DETTAX_PROGRAM},
                                            {"DETTAX_RUNS", (folder_.path() / "runs").string()},
                                            {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                            {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                            {"OMPI_MCA_pml", "ob1"},
                                            {"OMPI_MCA_btl", "self,tcp"},
                                            {"OMPI_MCA_btl_tcp_if_include", "lo"},
                                            {"OMPI_MCA_mpi_yield_when_idle", "1"}}) {
      ::setenv(name.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
    }
  }
  void TearDown() override {
    if (!up_) return;
    std::system((cluster_script("slurm.sh") + " down " + home().string() + " >/dev/null 2>&1")
                    .c_str());  // NOLINT(concurrency-mt-unsafe)
  }

  bool start(int port) const {
    const std::string command = "PORT=" + std::to_string(port) + " " + cluster_script("slurm.sh") +
                                " up 4 " + home().string() + " >>" +
                                (folder_.path() / "slurm.log").string() + " 2>&1";
    return std::system(command.c_str()) == 0;  // NOLINT(concurrency-mt-unsafe)
  }
  std::filesystem::path home() const { return folder_.path() / "slurm"; }
  std::string suite(const std::string& cases, const std::string& measure, bool relaunch) const {
    return write_suite(folder_.path(), cluster_suite_yaml(cases, measure, relaunch));
  }
  // The number of a job made from a template.
  std::string submit(const std::string& arguments, const std::string& suite_file,
                     const std::string& template_name = "slurm.sbatch") {
    return output_of("sbatch --parsable --time=10 -o " + (folder_.path() / "%j.log").string() +
                     " " + arguments + " " DETTAX_SOURCE_DIR "/configs/clusters/templates/" +
                     template_name + " " + suite_file + " 2>&1");
  }
  std::string state(const std::string& job) const {
    return output_of("squeue -h -t all -j " + job + " -o %T");
  }
  bool wait_for_state(const std::string& job, const std::string& wanted, double seconds) const {
    return wait_until(seconds, [&] { return state(job) == wanted; });
  }
  // Whatever the verdict: on a loaded machine it may be that nothing can be told.
  bool wait_for_end(const std::string& job, double seconds) const {
    return wait_until(seconds, [&] {
      const std::string now = state(job);
      return now == "COMPLETED" || now == "FAILED";
    });
  }
  std::string log(const std::string& job) const {
    return read_text(folder_.path() / (job + ".log"));
  }
  RunFolder run_of(const std::string& job) const {
    return only_run(folder_.path() / "runs" / ("slurm-" + job));
  }

  TemporaryFolder folder_;
  bool up_ = false;
};

TEST_F(Slurm, HasTheLedgerOfOneProcessUnderSrunAndMpirun) {
  const std::string file = suite("  - {}\n", kShortMeasure, true);
  const std::string expected = digest_of_threads(folder_.path(), file);
  for (const std::string launcher : {"srun", "mpirun"}) {
    const std::string job =
        submit("--nodes=4 --ntasks-per-node=1 --export=ALL,DETTAX_LAUNCHER=" + launcher, file);
    ASSERT_TRUE(wait_for_end(job, 120)) << state(job) << log(job);
    const Record record = run_of(job).records().at(0);
    EXPECT_EQ(digest_of(record, "deterministic"), expected) << launcher << record.verdict.reason;
    const ArmResult& arm = arm_of(record, "deterministic");
    EXPECT_EQ(arm.engaged.at("launcher"), launcher);
    std::vector<std::string> hosts;
    for (const RankPlace& place : arm.places) hosts.push_back(place.host);
    EXPECT_THAT(hosts, ElementsAre("n1", "n2", "n3", "n4"));
  }
}

TEST_F(Slurm, ARequeuedJobGoesOnWhereItStopped) {
  const std::string file = suite("  - {label: first}\n  - {label: second}\n  - {label: third}\n",
                                 "rounds_max: 100000, budget_seconds: 4", false);
  const std::string job = submit("--nodes=2 --ntasks-per-node=2", file);
  const std::string first_record =
      "ls " + (folder_.path() / "runs").string() + "/slurm-" + job + "/*/*.first.json 2>/dev/null";
  ASSERT_TRUE(wait_until(90, [&] { return !output_of(first_record).empty(); }))
      << state(job) << log(job);
  ASSERT_EQ(output_of("scontrol requeue " + job + " 2>&1"), "");
  ASSERT_TRUE(wait_for_state(job, "PENDING", 30)) << state(job) << log(job);
  // Else it starts after two minutes; within the second of its end, Slurm 22 takes the new start's credential for the revoked one.
  output_of("scontrol update JobId=" + job + " StartTime=now+2");
  ASSERT_TRUE(wait_for_end(job, 120)) << state(job) << log(job);
  const RunFolder run = run_of(job);
  ASSERT_THAT(run.records(), SizeIs(3));
  for (const Record& record : run.records()) {
    EXPECT_FALSE(record.taxes.empty()) << record.case_id << ": " << record.verdict.reason << "\n"
                                       << log(job);
  }
  EXPECT_EQ(attempts(read_journal(run.path()), run.records().front().case_id), 1);
  EXPECT_THAT(log(job), HasSubstr("run folder"));
}

// One node a task, all of them judged together: a prolog sets a variable of NCCL on one node alone, as a forgotten line of it does.
TEST_F(Slurm, AnArrayMeasuresEveryNodeForOneJudgement) {
  const std::filesystem::path prolog = folder_.path() / "prolog.sh";
  std::ofstream(prolog) << "#!/bin/sh\n"
                           "[ \"$SLURMD_NODENAME\" != n3 ] || echo export NCCL_ALGO=Tree\n";
  std::filesystem::permissions(prolog, std::filesystem::perms::owner_all);
  std::ofstream(home() / "slurm.conf", std::ios::app) << "TaskProlog=" << prolog.string() << '\n';
  ASSERT_EQ(output_of("scontrol reconfigure 2>&1"), "");
  const std::string job = submit("--array=0-3 --cpus-per-task=4",
                                 suite("  - {}\n", kShortMeasure, false), "slurm_array.sbatch");
  const auto open_tasks = [&] {
    return output_of("squeue -h -r -t PD,R,CF,CG -j " + job + " -o %T");
  };
  ASSERT_TRUE(wait_until(180, [&] { return open_tasks().empty(); })) << open_tasks();
  const std::filesystem::path runs = folder_.path() / "runs" / ("nodes-" + job);
  const std::string verdict = (folder_.path() / "verdict.json").string();
  const std::string words = output_of(DETTAX_PROGRAM " accept --judge " + runs.string() +
                                      " --verdict " + verdict + " 2>&1; echo code $?");
  EXPECT_THAT(words, HasSubstr("code 4"));
  EXPECT_THAT(words, HasSubstr("4 nodes: n1 ("));
  EXPECT_THAT(words, ContainsRegex("attempts +4 of 4 kept"));
  EXPECT_THAT(words, HasSubstr("NCCL_ALGO is Tree on n3, (unset) elsewhere"));
  EXPECT_THAT(read_text(verdict), HasSubstr("\"reason_code\": \"configuration_differs\""));
}

TEST_F(Slurm, AJobOfOtherNodesThanTheCaseExpectsStartsNothing) {
  const std::string file =
      suite("  - {topology: {nodes: 4, ranks_per_node: 1}}\n", kShortMeasure, false);
  const std::string job = output_of(
      "sbatch --parsable --nodes=2 --ntasks-per-node=2 -o " + (folder_.path() / "%j.log").string() +
      " --wrap '" DETTAX_PROGRAM " run " + file + " --launcher srun --no-progress --output-dir " +
      (folder_.path() / "runs").string() + "; echo code $?'");
  ASSERT_TRUE(wait_for_state(job, "COMPLETED", 60)) << state(job) << log(job);
  EXPECT_THAT(log(job), HasSubstr("code 4"));
  const Record record = only_run(folder_.path() / "runs").records().at(0);
  EXPECT_THAT(record.verdict.reason,
              HasSubstr("expected 4 nodes x 1 rank, found 2 nodes in Slurm job " + job));
}

}  // namespace
}  // namespace dettax
