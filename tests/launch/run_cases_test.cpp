// cases/run.md and layout-05 through whole suites: needs the dettax program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/case_run.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Layout05 = testing::CaseRun;
using Run02 = testing::CaseRun;
using Run03 = testing::CaseRun;

constexpr const char* kFourLayers = "layout: dp1, model: {base: gpt-tiny, layers: 4}";

std::string reordered(const std::string& tensor) {
  return std::string("{") + kFourLayers +
         ", injections: [{kind: reorder, arm: deterministic, op: backward/layer1/attention, "
         "tensor: " +
         tensor + "}]}";
}

bool agrees(const Ledger& a, const Ledger& b, const std::string& path, const std::string& tensor) {
  for (size_t i = 0; i < a.ranks.at(0).size(); ++i) {
    const LedgerEntry& one = a.ranks[0][i];
    if (one.step == 0 && one.path == path && one.tensor == tensor)
      return one == b.ranks.at(0).at(i);
  }
  throw std::runtime_error("no entry " + path + " " + tensor);
}

TEST_F(Run02, AReorderedDqFailsTheDeterministicArmAndNamesTheTensorAndTheLayer) {
  const Record record = run(reordered("dq"));
  EXPECT_EQ(record.verdict.reason_code, "not_reproducible");
  EXPECT_EQ(record.verdict.exit_code, 5);
  const ScopeEvidence& scope = evidence(record, "deterministic").scopes.at(0);
  EXPECT_THAT(scope.first_difference,
              HasSubstr("step 0, rank 0, micro0/backward/layer1/attention: dq differs ("));
  EXPECT_THAT(scope.first_difference, HasSubstr("later entries differ downstream)"));
  EXPECT_EQ(scope.cause, "order of sums: attention");
  EXPECT_THAT(record.verdict.reason, HasSubstr("deterministic=True"));
  EXPECT_TRUE(record.taxes.empty() || !record.taxes[0].published);

  const Ledger a = ledger(record, "deterministic.run_1");
  const Ledger b = ledger(record, "deterministic.run_2");
  const std::string struck = "micro0/backward/layer1/attention";
  EXPECT_FALSE(agrees(a, b, struck, "dq"));
  EXPECT_TRUE(agrees(a, b, struck, "dk"));
  EXPECT_TRUE(agrees(a, b, struck, "dv"));
  EXPECT_TRUE(agrees(a, b, "micro0/backward/layer2/attention", "dq"));
  EXPECT_FALSE(agrees(a, b, "micro0/backward/layer0/attention", "dq"));  // downstream
}

TEST_F(Run02, AnotherTensorIsNamedWhereAnotherIsReordered) {
  EXPECT_THAT(evidence(run(reordered("dv")), "deterministic").scopes.at(0).first_difference,
              HasSubstr("backward/layer1/attention: dv differs"));
}

TEST_F(Run02, WithoutTheFaultTheArmRepeatsItsBits) {
  EXPECT_TRUE(evidence(run(std::string("{") + kFourLayers + "}"), "deterministic").reproducible);
}

TEST_F(Run03, ACollectiveThatDiffersFromCallToCallIsTheOriginOnAllRanksAtOnce) {
  const Record record =
      run("{layout: dp4, batch: {micro: 2, global: 8, sequence_length: 32}, injections: [{kind: "
          "reorder_collectives, arm: deterministic}]}");
  EXPECT_EQ(record.verdict.reason_code, "not_reproducible");
  const ArmEvidence& found = evidence(record, "deterministic");
  EXPECT_TRUE(found.ranks.tested);
  EXPECT_TRUE(found.ranks.equal) << found.ranks.first_difference;
  const ScopeEvidence& scope = found.scopes.at(0);
  EXPECT_FALSE(scope.equal);
  EXPECT_THAT(scope.first_difference, HasSubstr("step 0, all 4 ranks, reduce/"));
  EXPECT_THAT(scope.first_difference, HasSubstr("its inputs agreed on every rank"));
  EXPECT_EQ(scope.cause, "collective order");
  EXPECT_THAT(scope.advice, HasSubstr("collectives is rank_order already"));
  EXPECT_THAT(record.verdict.reason, HasSubstr("NCCL_ALGO"));
}

TEST_F(Layout05, RanksThatLieElsewhereVoidTheArmWhoseSumsFollowThem) {
  other_allocation_ = true;
  const Record record =
      run("{layout: dp4, topology: {nodes: 2, ranks_per_node: 2}, batch: {micro: 2, global: 8, "
          "sequence_length: 32}, injections: [{kind: reorder_elsewhere, arm: deterministic}]}");
  EXPECT_EQ(record.verdict.exit_code, 5);
  const ArmEvidence& found = evidence(record, "deterministic");
  EXPECT_FALSE(found.reproducible);
  EXPECT_TRUE(found.scopes.at(0).equal) << found.scopes.at(0).first_difference;
  const ScopeEvidence& scope = found.scopes.at(1);
  EXPECT_EQ(scope.scope, "other_allocation");
  EXPECT_THAT(scope.first_difference, HasSubstr("step 0, all 4 ranks, reduce/"));
  EXPECT_EQ(scope.cause, "collective order");
  EXPECT_THAT(scope.advice, HasSubstr("NCCL_GRAPH_FILE"));
  EXPECT_TRUE(record.taxes.empty() || !record.taxes[0].published);
  // fast promises nothing: control is its only relaunch.
  EXPECT_EQ(evidence(record, "fast").scopes.back().scope, "relaunch");
}

}  // namespace
}  // namespace dettax
