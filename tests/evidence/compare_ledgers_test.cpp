#include <bit>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/evidence/ledgers.h"

namespace dettax {
namespace {

using testing::HasSubstr;

TEST(CompareLedgers, TheSameTwiceIsEqual) {
  const LedgerComparison same = compare_ledgers(sample_ledger(), sample_ledger());
  EXPECT_TRUE(same.comparable);
  EXPECT_TRUE(same.equal);
  EXPECT_EQ(same.compared, 2 * (2 + 3 * 8));
  EXPECT_EQ(same.description, "");
}

TEST(CompareLedgers, NamesTheFirstDifferenceInProgramOrderAndCountsWhatIsDownstream) {
  Ledger other = sample_ledger();
  entry(other, 0, 2, "forward/layer0/attention", "out").value = of(99);    // a later step
  entry(other, 0, 1, "result", "loss").value = of(99);                     // later in the step
  entry(other, 1, 1, "backward/layer1/attention", "dqkv").value = of(99);  // the first
  const LedgerComparison found = compare_ledgers(sample_ledger(), other);
  EXPECT_TRUE(found.comparable);
  EXPECT_FALSE(found.equal);
  EXPECT_EQ(found.differing, 3);
  EXPECT_EQ(found.first_rank, 1);
  EXPECT_EQ(found.first->path, "backward/layer1/attention");
  EXPECT_EQ(found.description,
            "step 1, rank 1, backward/layer1/attention: dqkv differs (2 later entries differ "
            "downstream)");
}

// The first stage has few entries in front of what it receives, the last one many in front of what it sends.
TEST(CompareLedgers, AStageThatReceivedWhatDiffersIsNotTheOrigin) {
  Ledger first;
  first.steps = 1;
  first.ranks = {{{0, "forward/layer0/mlp_down", "y", of(1)},
                  {0, "backward/layer0/pipeline_receive", "dy", of(2)},
                  {0, "backward/layer0/mlp_down", "dx", of(3)},
                  {0, "reduce/gradients", "weight.grad", of(4)}},
                 {{0, "forward/layer1/pipeline_receive", "x", of(1)},
                  {0, "forward/layer1/mlp_down", "y", of(5)},
                  {0, "forward/head_loss", "losses", of(6)},
                  {0, "backward/layer1/attention", "dq", of(7)},
                  {0, "backward/layer1/norm1", "dx", of(2)}}};
  Ledger other = first;
  for (const size_t i : {1U, 2U, 3U}) other.ranks[0][i].value = of(99);
  for (const size_t i : {3U, 4U}) other.ranks[1][i].value = of(99);
  EXPECT_THAT(compare_ledgers(first, other).description,
              HasSubstr("step 0, rank 1, backward/layer1/attention: dq differs (4 later"));
  // Changed on its way: nothing that the sender had differs.
  other.ranks[1] = first.ranks[1];
  EXPECT_THAT(compare_ledgers(first, other).description,
              HasSubstr("step 0, rank 0, backward/layer0/pipeline_receive: dy differs (2 later"));
}

TEST(CompareLedgers, ACollectiveIsTheOriginWhenItsInputsAgreed) {
  Ledger other = sample_ledger();
  for (size_t rank : {size_t{0}, size_t{1}}) {
    entry(other, rank, 0, "reduce/gradients", "weight.grad").value = of(99);
    entry(other, rank, 0, "state", "weight").value = of(98);
  }
  const LedgerComparison found = compare_ledgers(sample_ledger(), other);
  EXPECT_EQ(found.first->tensor, "weight.grad");
  EXPECT_THAT(
      found.description,
      HasSubstr("inputs agreed on every rank, so it is the order of the collective (3 later"));
}

TEST(CompareLedgers, ACollectiveIsNotTheOriginWhenOneRanksInputDiffered) {
  Ledger other = sample_ledger();
  // Rank 1 shows its input late, as it would with overlap: the reduced value stands in front of it.
  for (Ledger* ledger : {&other}) {
    for (size_t rank : {size_t{0}, size_t{1}})
      entry(*ledger, rank, 0, "reduce/gradients", "weight.grad").value = of(99);
  }
  entry(other, 1, 0, "reduce/gradients", "weight.grad before").value = of(99);
  Ledger first = sample_ledger();
  for (Ledger* ledger : {&first, &other}) {
    auto& entries = ledger->ranks[1];
    for (size_t i = 0; i + 1 < entries.size(); ++i) {
      if (entries[i].step == 0 && entries[i].tensor == "weight.grad before") {
        std::swap(entries[i], entries[i + 1]);
        break;
      }
    }
  }
  const LedgerComparison found = compare_ledgers(first, other);
  EXPECT_EQ(found.first_rank, 1);
  EXPECT_EQ(found.first->tensor, "weight.grad before");
}

TEST(CompareLedgers, AnotherCaseModeSeedOrShapeIsSaidBeforeBits) {
  const auto reason = [](const std::function<void(Ledger&)>& change) {
    Ledger other = sample_ledger();
    change(other);
    const LedgerComparison found = compare_ledgers(sample_ledger(), other);
    EXPECT_FALSE(found.comparable);
    EXPECT_FALSE(found.equal);
    EXPECT_EQ(found.compared, 0);
    return found.incomparable_reason;
  };
  EXPECT_THAT(reason([](Ledger& l) { l.case_id = "tiny.bf16.dp2.t1.b8x64"; }),
              HasSubstr("another case"));
  EXPECT_THAT(reason([](Ledger& l) { l.mode_hash = "0"; }), HasSubstr("another mode"));
  EXPECT_THAT(reason([](Ledger& l) { l.seed = 2; }), HasSubstr("another seed: 1 against 2"));
  EXPECT_THAT(reason([](Ledger& l) { l.micro_batch = 2; }), HasSubstr("micro-batch: 4 against 2"));
  EXPECT_THAT(reason([](Ledger& l) { l.ranks.pop_back(); }), HasSubstr("number of ranks"));
}

TEST(CompareLedgers, ReorderedEntriesAreNeverEqual) {
  Ledger other = sample_ledger();
  std::swap(other.ranks[0][2], other.ranks[0][3]);
  const LedgerComparison found = compare_ledgers(sample_ledger(), other);
  EXPECT_FALSE(found.equal);
  EXPECT_THAT(found.description, HasSubstr("another order"));
}

TEST(CompareLedgers, AnEntryMoreIsNeverEqual) {
  Ledger other = sample_ledger();
  other.ranks[1].push_back({2, "state", "extra", of(1)});
  EXPECT_THAT(compare_ledgers(sample_ledger(), other).description,
              HasSubstr("step 2, rank 1, state: extra is missing in the first"));
  EXPECT_THAT(compare_ledgers(other, sample_ledger()).description,
              HasSubstr("step 2, rank 1, state: extra is missing in the second"));
}

TEST(CompareLedgers, WhatIsMissingDoesNotHideWhatDiffersBehindIt) {
  Ledger other = sample_ledger();
  entry(other, 0, 0, "result", "loss").value = of(99);
  std::erase_if(other.ranks[0], [](const LedgerEntry& e) {
    return e.step == 0 && e.path == "forward/layer1/attention";
  });
  const LedgerComparison found = compare_ledgers(sample_ledger(), other);
  EXPECT_THAT(found.description, HasSubstr("step 0, rank 0, forward/layer1/attention: out is "
                                           "missing in the second (1 later entry differs"));
  EXPECT_EQ(found.differing, 2);
}

// --- another layout --------------------------------------------------------------------------------------------------------------

Ledger one_rank_with_half_the_micro_batch() {
  Ledger ledger = sample_ledger();
  ledger.case_id = "tiny.fp32.dp1.t1.b8x64";
  ledger.data_parallel = 1;
  ledger.micro_batch = 2;
  ledger.ranks.pop_back();
  for (LedgerEntry& one : ledger.ranks[0]) {
    if (one.path.starts_with("forward") || one.path.starts_with("backward"))
      one.path = "micro0/" + one.path;
  }
  std::erase_if(ledger.ranks[0], [](const LedgerEntry& e) { return e.tensor.ends_with("before"); });
  return ledger;
}

TEST(CompareLedgers, AnotherLayoutIsComparedByWhatDoesNotDependOnIt) {
  CompareOptions options;
  options.allow_other_layout = true;
  const LedgerComparison same =
      compare_ledgers(sample_ledger(), one_rank_with_half_the_micro_batch(), options);
  EXPECT_TRUE(same.equal) << same.description;
  EXPECT_EQ(same.compared, 2 + 3 * 3);
  EXPECT_FALSE(compare_ledgers(sample_ledger(), one_rank_with_half_the_micro_batch()).comparable);
  for (const auto& [path, tensor] :
       {std::pair{"result", "loss"}, {"state", "weight"}, {"reduce/gradients", "weight.grad"}}) {
    Ledger other = one_rank_with_half_the_micro_batch();
    entry(other, 0, 1, path, tensor).value = of(99);
    EXPECT_FALSE(compare_ledgers(sample_ledger(), other, options).equal) << path;
  }
}

TEST(CompareLedgers, AnotherModelIsNotAnotherLayout) {
  CompareOptions options;
  options.allow_other_layout = true;
  Ledger other = one_rank_with_half_the_micro_batch();
  other.case_id = "small.fp32.dp1.t1.b8x64";
  EXPECT_FALSE(compare_ledgers(sample_ledger(), other, options).comparable);
}

// --- cases -----------------------------------------------------------------------------------------------------------------------

TEST(Run04, OtherThreadsAreAnotherEnvironmentBeforeBits) {
  Ledger six = sample_ledger();
  six.threads_per_rank = 6;
  entry(six, 0, 0, "forward/layer0/attention", "out").value = of(std::nextafter(3.0f, 4.0f));
  const LedgerComparison refused = compare_ledgers(sample_ledger(), six);
  EXPECT_FALSE(refused.comparable);
  EXPECT_EQ(refused.compared, 0);
  EXPECT_EQ(refused.incomparable_reason,
            "different environment, not comparable bitwise: threads per rank: 1 against 6");
  CompareOptions force;
  force.force = true;
  const LedgerComparison forced = compare_ledgers(sample_ledger(), six, force);
  EXPECT_TRUE(forced.comparable);
  EXPECT_EQ(forced.first->path, "forward/layer0/attention");
  Ledger again = sample_ledger();
  again.threads_per_rank = 6;
  Ledger six_unbent = again;
  EXPECT_TRUE(compare_ledgers(again, six_unbent).equal);
}

// A series of losses as a ledger: one value a step.
Ledger series(const std::vector<float>& losses) {
  Ledger ledger = sample_ledger();
  ledger.steps = static_cast<int64_t>(losses.size());
  ledger.ranks.assign(1, {});
  for (size_t i = 0; i < losses.size(); ++i)
    ledger.ranks[0].push_back({static_cast<int64_t>(i), "result", "loss", of(losses[i])});
  return ledger;
}

const std::vector<float> kLosses = {10.84213f, 10.5132f, 9.98121f, 9.41532f, 9.02137f};

TEST(Nan04, OneUlpAtOneStepFails) {
  std::vector<float> other = kLosses;
  other[3] = std::bit_cast<float>(std::bit_cast<uint32_t>(other[3]) + 1);
  const LedgerComparison found = compare_ledgers(series(kLosses), series(other));
  EXPECT_FALSE(found.equal);
  EXPECT_EQ(found.differing, 1);
  EXPECT_EQ(found.description, "step 3, rank 0, result: loss differs");
}

TEST(Nan04, AnotherLengthFailsAndNamesTheMissingStep) {
  const std::vector<float> shorter(kLosses.begin(), kLosses.end() - 1);
  for (const LedgerComparison& found : {compare_ledgers(series(kLosses), series(shorter)),
                                        compare_ledgers(series(shorter), series(kLosses))}) {
    EXPECT_FALSE(found.equal);
    EXPECT_THAT(found.description, HasSubstr("step 4 is missing"));
  }
  // Also when its head claims the full length.
  Ledger lying = series(shorter);
  lying.steps = 5;
  EXPECT_THAT(compare_ledgers(series(kLosses), lying).description,
              HasSubstr("step 4, rank 0, result: loss is missing in the second"));
}

TEST(Nan04, AMissingStepInTheMiddleFailsAndIsNamed) {
  Ledger other = series(kLosses);
  other.ranks[0].erase(other.ranks[0].begin() + 2);
  const LedgerComparison found = compare_ledgers(series(kLosses), other);
  EXPECT_FALSE(found.equal);
  EXPECT_THAT(found.description,
              HasSubstr("step 2, rank 0, result: loss is missing in the second"));
  EXPECT_EQ(found.differing, 1);
}

TEST(Nan04, ADifferenceBeyondTheFifthDecimalFails) {
  std::vector<float> other = kLosses;
  other[1] += 2e-6f;
  ASSERT_EQ(std::round(static_cast<double>(other[1]) * 1e5),
            std::round(static_cast<double>(kLosses[1]) * 1e5));
  EXPECT_EQ(compare_ledgers(series(kLosses), series(other)).description,
            "step 1, rank 0, result: loss differs");
}

TEST(Nan04, AnEmptySeriesNeverPasses) {
  for (const auto& [a, b] : {std::pair{series(kLosses), series({})},
                             {series({}), series(kLosses)},
                             {series({}), series({})}}) {
    const LedgerComparison found = compare_ledgers(a, b);
    EXPECT_FALSE(found.equal);
    EXPECT_FALSE(found.comparable);
    EXPECT_THAT(found.description, HasSubstr("ledger is empty: step 0 is missing"));
  }
  CompareOptions force;
  force.force = true;
  EXPECT_FALSE(compare_ledgers(series({}), series({}), force).equal);
}

TEST(Nan04, NanOfOtherPayloadAndMinusZeroAreDifferences) {
  std::vector<float> zero = kLosses, minus = kLosses;
  zero[0] = 0.0f;
  minus[0] = -0.0f;
  EXPECT_FALSE(compare_ledgers(series(zero), series(minus)).equal);
  std::vector<float> nan_a = kLosses, nan_b = kLosses;
  nan_a[0] = std::bit_cast<float>(0x7fc00000u);
  nan_b[0] = std::bit_cast<float>(0x7fc00001u);
  EXPECT_FALSE(compare_ledgers(series(nan_a), series(nan_b)).equal);
  EXPECT_TRUE(compare_ledgers(series(nan_a), series(nan_a)).equal);
}

}  // namespace
}  // namespace dettax
