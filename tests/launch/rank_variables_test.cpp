#include "harness/launch/rank_variables.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "tests/launch/support.h"

namespace dettax {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::lookup;
using ::testing::Not;

using Variables = std::map<std::string, std::string>;

std::string refusal_of(const Variables& variables) {
  return testing::refusal_of([&] { find_rank_variables(lookup(variables)); });
}

TEST(RankVariables, Launch03TorchrunsOwnWinAsASet) {
  const auto found = find_rank_variables(lookup({{"RANK", "2"},
                                                 {"LOCAL_RANK", "2"},
                                                 {"SLURM_PROCID", "0"},
                                                 {"WORLD_SIZE", "4"},
                                                 {"SLURM_NTASKS", "1"}}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 2);
  EXPECT_EQ(found->size, 4);
  EXPECT_EQ(found->local_rank, 2);
  EXPECT_EQ(found->source, "RANK");
}

TEST(RankVariables, Launch03ALocalRankBesideASlurmRankIsAmbiguous) {
  const std::string words = refusal_of({{"LOCAL_RANK", "3"}, {"SLURM_PROCID", "0"}});
  EXPECT_THAT(words, AllOf(HasSubstr("LOCAL_RANK=3"), HasSubstr("SLURM_PROCID=0"),
                           HasSubstr("cannot be told"), Not(HasSubstr("\n"))));
}

TEST(RankVariables, Launch03TheHostOfRankZeroNeedNotBeTheMaster) {
  const auto found = find_rank_variables(lookup({{"RANK", "0"},
                                                 {"WORLD_SIZE", "2"},
                                                 {"LOCAL_RANK", "0"},
                                                 {"MASTER_ADDR", "a"},
                                                 {"HOSTNAME", "b"}}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 0);
}

TEST(RankVariables, SlurmThenOpenMpiThenPmix) {
  EXPECT_EQ(find_rank_variables(
                lookup({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "0"}}))
                ->source,
            "SLURM_PROCID");
  EXPECT_EQ(find_rank_variables(lookup({{"OMPI_COMM_WORLD_RANK", "1"},
                                        {"OMPI_COMM_WORLD_SIZE", "2"},
                                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}}))
                ->local_rank,
            1);
  EXPECT_EQ(find_rank_variables(
                lookup({{"PMIX_RANK", "1"}, {"PMIX_SIZE", "3"}, {"PMIX_LOCAL_RANK", "0"}}))
                ->size,
            3);
  EXPECT_FALSE(find_rank_variables(lookup({{"HOME", "/"}})));
}

TEST(RankVariables, AMissingCountIsRefusedInOneLine) {
  EXPECT_THAT(refusal_of({{"RANK", "1"}, {"LOCAL_RANK", "1"}}),
              AllOf(HasSubstr("WORLD_SIZE is not"), Not(HasSubstr("\n"))));
  EXPECT_THAT(refusal_of({{"SLURM_PROCID", "1"}, {"SLURM_LOCALID", "1"}}),
              HasSubstr("SLURM_NTASKS is not"));
}

TEST(RankVariables, ContradictionsAreRefusedInOneLine) {
  EXPECT_THAT(refusal_of({{"RANK", "4"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}}),
              HasSubstr("RANK=4 is not below WORLD_SIZE=4"));
  EXPECT_THAT(refusal_of({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}}),
              HasSubstr("LOCAL_RANK=2 is above RANK=1"));
  EXPECT_THAT(refusal_of({{"RANK", "one"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}}),
              HasSubstr("RANK=one is no whole number"));
  // mpirun inside a batch script: Slurm's variables are those of the script.
  EXPECT_THAT(refusal_of({{"SLURM_PROCID", "0"},
                          {"SLURM_NTASKS", "4"},
                          {"SLURM_LOCALID", "0"},
                          {"OMPI_COMM_WORLD_RANK", "2"},
                          {"OMPI_COMM_WORLD_SIZE", "4"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}}),
              AllOf(HasSubstr("SLURM_PROCID says rank 0 of 4"),
                    HasSubstr("OMPI_COMM_WORLD_RANK says rank 2 of 4")));
}

TEST(RankVariables, AProcessThatKnowsItsLauncherReadsThatSet) {
  const auto variables = lookup({{"SLURM_PROCID", "0"},
                                 {"SLURM_NTASKS", "4"},
                                 {"OMPI_COMM_WORLD_RANK", "2"},
                                 {"OMPI_COMM_WORLD_SIZE", "4"},
                                 {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}});
  EXPECT_EQ(read_rank_variables(variables, "OMPI_COMM_WORLD_RANK").rank, 2);
  EXPECT_THROW(read_rank_variables(variables, "RANK"), Error);
  EXPECT_THROW(read_rank_variables(variables, "SLURM_PROCID"), Error);  // without SLURM_LOCALID
}

}  // namespace
}  // namespace dettax
