#include "harness/cli/run_tax.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/results/sample_record.h"

namespace dettax {
namespace {

TEST(RunTaxes, HoldTheTaxAndTheCheapestKnobsOfARecord) {
  const std::vector<RunTax> taxes = run_taxes({record_with_causes()});
  ASSERT_EQ(taxes.size(), 1U);
  EXPECT_THAT(taxes[0].name, testing::EndsWith("/deterministic"));
  EXPECT_NEAR(taxes[0].value, 0.0163, 1e-4);
  ASSERT_TRUE(taxes[0].cheapest.has_value());
  EXPECT_EQ(taxes[0].cheapest->refusal, "");
  EXPECT_THAT(taxes[0].cheapest->knobs, testing::ElementsAre("attention"));
  EXPECT_NEAR(taxes[0].cheapest->value, 0.09, 1e-12);
  EXPECT_NEAR(taxes[0].cheapest->low, 0.08, 1e-12);
  EXPECT_FALSE(run_taxes({sample_record()})[0].cheapest.has_value()) << "no knob was turned";
}

TEST(RunTaxes, WhatIsNoTaxIsNoneAndAGainIsNoCost) {
  Record record = record_with_causes();
  record.taxes[0].overhead_ratio = {0.99, 0.97, 1.01, 9};
  EXPECT_EQ(run_taxes({record})[0].value, 0);
  EXPECT_NEAR(run_taxes({record})[0].high, 0.01, 1e-12);
  record.taxes[0].published = false;
  EXPECT_TRUE(run_taxes({record}).empty());
  record.taxes[0].published = true;
  record.precision_note = "emulated";
  EXPECT_TRUE(run_taxes({record}).empty());
}

TEST(RunTaxes, OfAnUndecidedTaxOnlyTheIntervalIsTaken) {
  Record record = record_with_causes();
  EXPECT_TRUE(run_taxes({record})[0].resolved);
  record.taxes[0].overhead_ratio = {1.044, 1.02, 1.07, 9};
  record.verdict.status = Status::inconclusive;
  record.verdict.reason_code = "not_resolved";
  const RunTax tax = run_taxes({record})[0];
  EXPECT_FALSE(tax.resolved);
  EXPECT_NEAR(tax.value, 0.045, 1e-12) << "the middle, not what the record holds";
  EXPECT_NEAR(tax.low, 0.02, 1e-12);
}

TEST(RunTaxes, ASetThatWasNotShownToBeEnoughSaysWhy) {
  Record record = record_with_causes();
  record.ablation->sufficient.reproducible = false;
  record.ablation->sufficient.reason = "runs differ at forward/loss";
  EXPECT_EQ(run_taxes({record})[0].cheapest->refusal, "runs differ at forward/loss");
  record.ablation->sufficient = {{"attention"}, true, 7, std::nullopt, ""};
  EXPECT_EQ(run_taxes({record})[0].cheapest->refusal, "it was not timed");
}

}  // namespace
}  // namespace dettax
