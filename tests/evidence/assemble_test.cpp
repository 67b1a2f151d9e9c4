#include "harness/evidence/assemble.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/evidence/ledgers.h"

namespace dettax {
namespace {

using testing::HasSubstr;

Ledger bent(int64_t step) {
  Ledger ledger = sample_ledger();
  entry(ledger, 0, step, "backward/layer0/attention", "dqkv").value = of(1e6f);
  return ledger;
}

std::vector<ArmLedgers> arms(const Ledger& second_fast, const Ledger& second_det,
                             const Ledger& relaunched_det) {
  return {{"fast", {{"same_process", {sample_ledger(), second_fast}}}, "fast.jsonl"},
          {"control", {{"same_process", {sample_ledger(), sample_ledger()}}}, ""},
          {"deterministic",
           {{"same_process", {sample_ledger(), second_det}}, {"relaunch", {relaunched_det}}},
           "det.jsonl"}};
}

TEST(AssembleEvidence, FastDiffersAndDeterministicRepeats) {
  const Evidence evidence = assemble_evidence(arms(bent(1), sample_ledger(), sample_ledger()));
  EXPECT_TRUE(evidence.fast_differed);
  EXPECT_EQ(evidence.blindness, "");
  EXPECT_FALSE(evidence.arms[0].reproducible);
  const ArmEvidence& det = evidence.arms[2];
  EXPECT_TRUE(det.reproducible);
  ASSERT_EQ(det.scopes.size(), 2U);
  EXPECT_EQ(det.scopes[1].runs, 2);
  EXPECT_GT(det.scopes[1].compared, 0);
  EXPECT_EQ(det.ledger_digest, digest(sample_ledger()));
  EXPECT_EQ(det.ledger_file, "det.jsonl");
}

TEST(AssembleEvidence, ADifferenceInAnyScopeTakesTheClaimAway) {
  const Evidence same_process = assemble_evidence(arms(bent(1), bent(2), sample_ledger()));
  const Evidence relaunch = assemble_evidence(arms(bent(1), sample_ledger(), bent(0)));
  EXPECT_FALSE(same_process.arms[2].reproducible);
  EXPECT_FALSE(relaunch.arms[2].reproducible);
  EXPECT_THAT(relaunch.arms[2].scopes[1].first_difference,
              HasSubstr("step 0, rank 0, backward/layer0/attention: dqkv differs"));
  EXPECT_EQ(relaunch.arms[2].scopes[1].first_difference_op, "backward/layer0/attention");
}

TEST(AssembleEvidence, ControlIsARelaunchOfFast) {
  std::vector<ArmLedgers> all = arms(sample_ledger(), sample_ledger(), sample_ledger());
  all[1].scopes[0].runs = {bent(1), bent(1)};
  const Evidence evidence = assemble_evidence(all);
  EXPECT_TRUE(evidence.fast_differed);
  EXPECT_EQ(evidence.arms[0].scopes.back().scope, "relaunch");
  EXPECT_FALSE(evidence.arms[0].scopes.back().equal);
}

TEST(AssembleEvidence, AFastArmThatRepeatsItsBitsIsSaidToBeBlind) {
  const Evidence evidence =
      assemble_evidence(arms(sample_ledger(), sample_ledger(), sample_ledger()));
  EXPECT_FALSE(evidence.fast_differed);
  EXPECT_THAT(evidence.blindness,
              HasSubstr("there is nothing to pay for, or the case cannot show it"));
}

TEST(AssembleEvidence, NotTestedIsNeverReproducible) {
  std::vector<ArmLedgers> all = arms(bent(1), sample_ledger(), sample_ledger());
  all[2].scopes[0].runs.pop_back();  // one run alone compares with nothing
  Evidence evidence = assemble_evidence(all);
  EXPECT_FALSE(evidence.arms[2].scopes[0].tested);
  EXPECT_FALSE(evidence.arms[2].reproducible);
  all[2].scopes.clear();
  evidence = assemble_evidence(all);
  EXPECT_FALSE(evidence.arms[2].reproducible);
  EXPECT_EQ(evidence.arms[2].ledger_digest, "");
}

TEST(AssembleEvidence, LedgersThatCannotBeComparedAreNoProofOfVariation) {
  Ledger other_seed = sample_ledger();
  other_seed.seed = 2;
  const Evidence evidence = assemble_evidence(arms(other_seed, sample_ledger(), other_seed));
  EXPECT_FALSE(evidence.fast_differed);
  EXPECT_FALSE(evidence.arms[2].reproducible);
  EXPECT_THAT(evidence.arms[2].scopes[1].first_difference, HasSubstr("another seed"));
}

TEST(AssembleEvidence, OtherThreadsAreComparedAsAnotherLayout) {
  std::vector<ArmLedgers> all = arms(bent(1), sample_ledger(), sample_ledger());
  Ledger threads = sample_ledger();
  threads.threads_per_rank = 3;
  threads.case_id = "tiny.fp32.dp2.t3.b8x64";
  all[2].scopes.push_back({"other_threads", {threads}});
  EXPECT_TRUE(assemble_evidence(all).arms[2].reproducible);
  entry(all[2].scopes[2].runs[0], 0, 1, "state", "weight").value = of(99);
  EXPECT_FALSE(assemble_evidence(all).arms[2].reproducible);
}

}  // namespace
}  // namespace dettax
