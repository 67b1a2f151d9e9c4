#include "harness/launch/job.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/launch/launch_command.h"
#include "tests/launch/support.h"

namespace dettax {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using testing::lookup;
using ::testing::Not;
using testing::refusal_of;
using testing::TemporaryFolder;

using Variables = std::map<std::string, std::string>;

const Variables kSlurm = {{"SLURM_JOB_ID", "17"},
                          {"SLURM_JOB_NODELIST", "n[1-3]"},
                          {"SLURM_NTASKS", "5"},
                          {"SLURM_TASKS_PER_NODE", "2(x2),1"},
                          {"SLURM_JOB_CPUS_PER_NODE", "4(x2),2"},
                          {"SLURM_GPUS_ON_NODE", "7"}};

Case planned(int nodes, int ranks_per_node) {
  Case planned;
  planned.layout.dp = nodes * ranks_per_node;
  planned.topology = {nodes, ranks_per_node, 1, {}, {}};
  return planned;
}

Hello rank_on(const std::string& host, int devices = 0) {
  Hello hello;
  hello.host = host;
  hello.devices = devices;
  return hello;
}

TEST(Job, OfSlurmHasItsNodesAndUnevenTasks) {
  const Job job = find_job({}, lookup(kSlurm));
  EXPECT_EQ(job.name, "Slurm job 17");
  EXPECT_THAT(job.hosts, ElementsAre(HostSlots{"n1", 2}, HostSlots{"n2", 2}, HostSlots{"n3", 1}));
  EXPECT_EQ(job.cores_per_host, 2);
  EXPECT_EQ(job.devices_per_host, 7);
}

TEST(Job, IsNarrowedByLists) {
  EXPECT_THAT(find_job({"", "n[2-3]", ""}, lookup(kSlurm)).hosts,
              ElementsAre(HostSlots{"n2", 2}, HostSlots{"n3", 1}));
  EXPECT_THAT(find_job({"", "", "n2"}, lookup(kSlurm)).hosts,
              ElementsAre(HostSlots{"n1", 2}, HostSlots{"n3", 1}));
  EXPECT_THAT(refusal_of([] { find_job({"", "n9", ""}, lookup(kSlurm)); }),
              AllOf(HasSubstr("n9 is not in Slurm job 17"), HasSubstr("n1 x 2")));
  EXPECT_THAT(refusal_of([] { find_job({"", "", "n[1-3]"}, lookup(kSlurm)); }),
              HasSubstr("leaves no host"));
}

TEST(Job, WithoutSlurmIsAListAFileOrThisHost) {
  EXPECT_THAT(find_job({"", "a[1-2]", ""}, lookup({})).hosts,
              ElementsAre(HostSlots{"a1", 0}, HostSlots{"a2", 0}));
  EXPECT_EQ(find_job({}, lookup({})).hosts.size(), 1U);
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "hosts").string();
  std::ofstream(path) << "# ours\nb1 slots=4\n\nb2 slots=2 max_slots=2 # the small one\nb3\n";
  EXPECT_THAT(find_job({path, "", ""}, lookup(kSlurm)).hosts,
              ElementsAre(HostSlots{"b1", 4}, HostSlots{"b2", 2}, HostSlots{"b3", 0}));
}

TEST(Job, RefusesAHostFileItDoesNotUnderstand) {
  EXPECT_THAT(refusal_of([] { parse_hostfile("a\nb cpu=2\n", "hosts"); }),
              HasSubstr("hosts:2: \"cpu=2\""));
  EXPECT_THAT(refusal_of([] { parse_hostfile("a slots=0\n", "hosts"); }), HasSubstr("slots=0"));
  EXPECT_THAT(refusal_of([] { parse_hostfile("# none\n", "hosts"); }), HasSubstr("names no host"));
  EXPECT_THAT(refusal_of([] { find_job({"/nowhere/hosts", "", ""}, lookup({})); }),
              HasSubstr("cannot be read"));
}

TEST(Job, RefusesVariablesThatContradictEachOther) {
  Variables two = kSlurm;
  two["SLURM_TASKS_PER_NODE"] = "2(x2)";
  EXPECT_THAT(refusal_of([&] { find_job({}, lookup(two)); }),
              HasSubstr("SLURM_TASKS_PER_NODE has 2 nodes and SLURM_JOB_NODELIST 3"));
  EXPECT_THAT(refusal_of([] { find_job({}, lookup({{"SLURM_JOB_ID", "1"}})); }),
              HasSubstr("SLURM_JOB_NODELIST is not set"));
}

TEST(JobFault, Acceptance05StopsBeforeTheLaunchWithExpectedAndFound) {
  const Job job = find_job({}, lookup(kSlurm));
  EXPECT_FALSE(job_fault(planned(2, 2), job));
  EXPECT_THAT(hosts_for(planned(2, 2), job), ElementsAre("n1", "n2"));
  EXPECT_EQ(job_fault(planned(3, 2), job),
            "expected 3 nodes x 2 ranks, found 3 nodes in Slurm job 17 (n1 x 2, n2 x 2, n3 x 1)");
  EXPECT_EQ(job_fault(planned(4, 1), job),
            "expected 4 nodes x 1 rank, found 3 nodes in Slurm job 17 (n1 x 2, n2 x 2, n3 x 1)");
  Case gpu = planned(1, 8);
  gpu.backend = Backend::cuda;
  Job large = job;
  large.hosts[0].ranks = 8;
  EXPECT_EQ(job_fault(gpu, large), "expected 8 devices a node, found 7 in Slurm job 17");
}

TEST(PlacementFault, TellsRanksByHost) {
  EXPECT_FALSE(
      placement_fault(planned(2, 2), {rank_on("a"), rank_on("a"), rank_on("b"), rank_on("b")}));
  EXPECT_EQ(
      placement_fault(planned(2, 2), {rank_on("a"), rank_on("a"), rank_on("a"), rank_on("b")}),
      "expected 2 nodes x 2 ranks, found 2 nodes (a x 3, b x 1)");
  EXPECT_EQ(placement_fault(planned(2, 1), {rank_on("a"), rank_on("a")}),
            "expected 2 nodes x 1 rank, found 1 node (a x 2)");
}

TEST(PlacementFault, Acceptance05AMissingDeviceNamesItsHost) {
  Case gpu = planned(2, 1);
  gpu.backend = Backend::cuda;
  EXPECT_FALSE(placement_fault(gpu, {rank_on("a", 1), rank_on("b", 8)}));
  EXPECT_EQ(placement_fault(gpu, {rank_on("a", 1), rank_on("b", 0)}),
            "expected 1 devices on host b, found 0");
}

TEST(FleetFault, Acceptance04NamesTheVariableAndTheHost) {
  std::vector<Hello> ranks;
  for (int i = 1; i <= 8; ++i) ranks.push_back(rank_on("n" + std::to_string(i)));
  for (Hello& rank : ranks) rank.variables["NCCL_TOPO_FILE"] = "/etc/topo.xml";
  EXPECT_FALSE(fleet_fault(ranks));
  ranks[4].variables["NCCL_TOPO_FILE"] = "/tmp/topo.xml";
  EXPECT_EQ(fleet_fault(ranks),
            "the configuration of host n5 differs from the fleet: NCCL_TOPO_FILE is "
            "\"/tmp/topo.xml\" there and \"/etc/topo.xml\" on 7 others");
  ranks[4].variables["NCCL_TOPO_FILE"] = "/etc/topo.xml";
  ranks[2].variables["NCCL_ALGO"] = "Tree";
  EXPECT_EQ(fleet_fault(ranks),
            "the configuration of host n3 differs from the fleet: NCCL_ALGO is \"Tree\" there and "
            "not set on 7 others");
}

class Command : public ::testing::Test {
 protected:
  Command() {
    for (const char* name : {"mpirun", "srun"}) {
      const auto path = folder_.path() / name;
      std::ofstream(path) << "#!/bin/sh\n";
      std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    }
    variables_ = {{"PATH", folder_.path().string()},
                  {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                  {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
    plan_.topology = {2, 3, 2, {}, {}};
    plan_.hosts = {"a", "b"};
    plan_.cores_per_host = 8;
    plan_.program = "/opt/dettax";
    plan_.worker_arguments = {"worker"};
    plan_.environment = {{"NCCL_ALGO", "Ring"}};
    plan_.extra_arguments = {"--mca", "btl", "self,tcp"};
  }
  ProcessSpec command(RankStarter starter) {
    return rank_command(starter, plan_, lookup(variables_));
  }

  TemporaryFolder folder_;
  Variables variables_;
  GroupPlan plan_;
};

TEST_F(Command, OfMpirunPlacesRanksByNodeAndCarriesTheMode) {
  const ProcessSpec mpirun = command(RankStarter::mpirun);
  EXPECT_EQ(mpirun.program, (folder_.path() / "mpirun").string());
  EXPECT_EQ(mpirun.environment.at("NCCL_ALGO"), "Ring");
  EXPECT_THAT(mpirun.arguments,
              ElementsAre("-np", "6", "--host", "a:3,b:3", "--map-by", "ppr:3:node", "--bind-to",
                          "none", "--oversubscribe", "--tag-output", "-x", "NCCL_ALGO", "--mca",
                          "btl", "self,tcp", "/opt/dettax", "worker"));
}

TEST_F(Command, DealsRanksToTheHostsInTurn) {
  plan_.dealt = true;
  EXPECT_THAT(command(RankStarter::mpirun).arguments, IsSupersetOf({"--map-by", "node"}));
  variables_["SLURM_JOB_ID"] = "17";
  EXPECT_THAT(command(RankStarter::srun).arguments, Contains("--distribution=cyclic"));
}

TEST_F(Command, OfMpirunYieldsWhereCoresAreFew) {
  plan_.cores_per_host = 5;
  EXPECT_THAT(command(RankStarter::mpirun).arguments,
              IsSupersetOf({"--mca", "mpi_yield_when_idle", "1"}));
}

TEST_F(Command, OfSrunOverlapsTheStepsOfItsJob) {
  EXPECT_THAT(refusal_of([&] { command(RankStarter::srun); }), HasSubstr("no Slurm job here"));
  variables_["SLURM_JOB_ID"] = "17";
  const ProcessSpec srun = command(RankStarter::srun);
  EXPECT_THAT(srun.arguments, IsSupersetOf({"--nodes=2", "--ntasks=6", "--ntasks-per-node=3",
                                            "--nodelist=a,b", "--overlap", "--cpus-per-task=2"}));
  EXPECT_EQ(srun.arguments.back(), "worker");
  plan_.cores_per_host = 5;
  EXPECT_THAT(command(RankStarter::srun).arguments, Contains("--overcommit"));
  EXPECT_EQ(command(RankStarter::mpirun).environment.at("SLURM_OVERLAP"), "1");
}

TEST_F(Command, NamesWhatIsMissing) {
  variables_["PATH"] = "/nowhere";
  EXPECT_THAT(refusal_of([&] { command(RankStarter::mpirun); }), HasSubstr("no mpirun on PATH"));
}

TEST_F(Command, SaysThatMpirunRefusesRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "mpirun refuses only root";
  variables_.erase("OMPI_ALLOW_RUN_AS_ROOT");
  EXPECT_THAT(refusal_of([&] { command(RankStarter::mpirun); }),
              HasSubstr("OMPI_ALLOW_RUN_AS_ROOT=1"));
}

}  // namespace
}  // namespace dettax
