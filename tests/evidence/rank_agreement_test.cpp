#include "harness/evidence/rank_agreement.h"

#include <gtest/gtest.h>

#include "tests/evidence/ledgers.h"

namespace dettax {
namespace {

TEST(RanksAgreement, ComparesWhatReductionsMadeEqualAndNothingElse) {
  const Ledger ledger = sample_ledger();
  const RankAgreement agreement = ranks_agreement(ledger);
  EXPECT_TRUE(agreement.tested);
  EXPECT_TRUE(agreement.equal) << agreement.first_difference;
  EXPECT_EQ(agreement.compared, 2 + 3 * 3);
}

TEST(RanksAgreement, ARankWithOtherBitsIsNamed) {
  Ledger ledger = sample_ledger();
  entry(ledger, 1, 1, "reduce/gradients", "weight.grad").value = of(99);
  const RankAgreement agreement = ranks_agreement(ledger);
  EXPECT_TRUE(agreement.tested);
  EXPECT_FALSE(agreement.equal);
  EXPECT_EQ(agreement.first_difference,
            "step 1, reduce/gradients: weight.grad of rank 1 is not that of rank 0");
}

TEST(RanksAgreement, ComparesGradientsOfRanksThatShareSequences) {
  Ledger ledger = sample_ledger();
  ledger.case_id = "tiny.fp32.cp2.t1.b8x64";
  ledger.data_parallel = 1;
  EXPECT_TRUE(ranks_agreement(ledger).equal);
  entry(ledger, 1, 1, "reduce/gradients", "weight.grad").value = of(99);
  EXPECT_FALSE(ranks_agreement(ledger).equal);
}

TEST(RanksAgreement, IsNotTestedOnOneRank) {
  Ledger one = sample_ledger();
  one.ranks.pop_back();
  EXPECT_FALSE(ranks_agreement(one).tested);
}

// Each rank has other gradients, and all of them one state.
TEST(RanksAgreement, ComparesResultsAndStateWhereRanksAreNoCopies) {
  Ledger sharded = sample_ledger();
  sharded.case_id = "tiny.fp32.dp2.zero1.t1.b8x64";
  Ledger stages = sample_ledger();
  stages.data_parallel = 1;
  stages.case_id = "tiny.fp32.pp2.t1.b8x64";
  for (Ledger ledger : {sharded, stages}) {
    entry(ledger, 1, 1, "reduce/gradients", "weight.grad").value = of(99);
    RankAgreement agreement = ranks_agreement(ledger);
    EXPECT_TRUE(agreement.equal) << agreement.first_difference;
    EXPECT_EQ(agreement.compared, 2 + 3 * 2);
    entry(ledger, 1, 1, "state", "weight").value = of(99);
    agreement = ranks_agreement(ledger);
    EXPECT_TRUE(agreement.tested);
    EXPECT_FALSE(agreement.equal);
    EXPECT_EQ(agreement.first_difference, "step 1, state: weight of rank 1 is not that of rank 0");
  }
}

}  // namespace
}  // namespace dettax
