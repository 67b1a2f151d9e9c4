#include "harness/evidence/repetition.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/evidence/ledgers.h"

namespace dettax {
namespace {

// What was recorded at a depth at which ops leave nothing.
Ledger shallow(Ledger ledger) {
  for (auto& entries : ledger.ranks)
    std::erase_if(entries,
                  [](const LedgerEntry& one) { return one.path.find("ward/") != one.path.npos; });
  return ledger;
}

Repetition repetition(const Ledger& recorded, const Ledger& again, int64_t from, int64_t end) {
  return compare_repetition(*view_ledger(recorded), *view_ledger(again), from, end);
}

TEST(Repetition, OfADeeperRunHoldsWhatBothHave) {
  const Repetition found = repetition(shallow(sample_ledger()), sample_ledger(), 0, 2);
  EXPECT_EQ(found.first_difference, "");
  EXPECT_EQ(found.compared, 2 * (2 + 2 * 4));
}

TEST(Repetition, OfARunThatBeginsLaterHasTheStateInFrontOfIt) {
  Ledger again = sample_ledger();
  for (auto& entries : again.ranks)
    std::erase_if(entries, [](const LedgerEntry& one) {
      return one.step < 0 || (one.step == 0 && one.path != "state");
    });
  EXPECT_EQ(repetition(sample_ledger(), again, 1, 2).first_difference, "");
  entry(again, 0, 0, "state", "weight").value.lane0 ^= 1;
  EXPECT_EQ(repetition(sample_ledger(), again, 1, 2).first_difference,
            "step 0, rank 0, state: weight");
}

TEST(Repetition, NamesTheFirstThatIsAnother) {
  Ledger again = sample_ledger();
  entry(again, 1, 1, "state", "weight").value.lane1 ^= 1;
  EXPECT_EQ(repetition(shallow(sample_ledger()), again, 0, 2).first_difference,
            "step 1, rank 1, state: weight");
  EXPECT_EQ(repetition(shallow(sample_ledger()), again, 0, 1).first_difference, "")
      << "the step lies behind those that are compared";
}

TEST(Repetition, MissesWhatIsNotThere) {
  Ledger again = sample_ledger();
  std::erase_if(again.ranks[0], [](const LedgerEntry& one) { return one.tensor == "loss"; });
  EXPECT_EQ(repetition(sample_ledger(), again, 0, 2).first_difference,
            "step 0, rank 0, result: loss is missing");
  again = sample_ledger();
  again.ranks.resize(1);
  EXPECT_NE(repetition(sample_ledger(), again, 0, 2).first_difference, "");
}

}  // namespace
}  // namespace dettax
