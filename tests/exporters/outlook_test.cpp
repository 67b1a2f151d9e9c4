// What is expected rather than measured, in the formats that show it.
#include "exporters/outlook.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/exporters/consumers.h"
#include "tests/exporters/outlooks.h"
#include "tests/exporters/samples.h"

namespace dettax {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string shown(const std::string& format, const std::vector<Record>& records,
                  const Outlook& outlook) {
  ExportSettings settings;
  settings.outlook = &outlook;
  return exported(format, records, settings);
}

class OutlookFormat : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Formats, OutlookFormat,
                         testing::Values("html", "markdown", "openmetrics"));

TEST_P(OutlookFormat, ShowsBothAloneAndBesideARunAndIsTakenByItsReader) {
  const Outlook outlook = sample_outlook();
  for (const std::vector<Record>& records : {std::vector<Record>{}, {sample_record()}}) {
    const std::string text = shown(GetParam(), records, outlook);
    EXPECT_EQ(refusal_by_consumer(GetParam(), text), "");
    EXPECT_THAT(text, HasSubstr("llama"));
    EXPECT_THAT(text, HasSubstr("windows"));
  }
  const std::string without = exported(GetParam(), {sample_record()});
  EXPECT_THAT(without, Not(HasSubstr("llama")));
}

TEST_P(OutlookFormat, TakesHostileNames) {
  Outlook outlook = sample_outlook();
  outlook.projections[0].model = "</script><script>alert(1)</script> \"|\n\x01";
  outlook.projections[0].causes[0].name = outlook.projections[0].model;
  outlook.decision->inputs.inputs[2].source = outlook.projections[0].model;
  const std::string text = shown(GetParam(), {}, outlook);
  EXPECT_EQ(refusal_by_consumer(GetParam(), text), "");
  if (GetParam() != "openmetrics") {
    EXPECT_THAT(text, Not(HasSubstr("<script>alert")));
  }
}

TEST(Outlooks, MetricsHaveTheTaxTheAnswerAndTheCheapestKnobs) {
  const std::string text = shown("openmetrics", {}, sample_outlook());
  for (const char* line :
       {"dettax_projected_overhead_ratio{", "dettax_decision{knobs=\"mode\",policy=\"always\"} 0",
        "dettax_decision{knobs=\"mode\",policy=\"windows\"} 1",
        "dettax_decision_cost_dollars{knobs=\"cheapest\",policy=\"always\",stat=\"p90\"}",
        "dettax_decision_overhead_ratio{knobs=\"cheapest\"} 1.01"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST(Outlooks, WithoutANumberOfGpusThereIsATableAndNoMetric) {
  Outlook outlook = sample_outlook();
  outlook.decision->sizes = {{256, 0.01, Policy::never, 0.7}, {4096, 0.04, Policy::windows, 0.5}};
  EXPECT_THAT(shown("openmetrics", {}, outlook), Not(HasSubstr("dettax_decision")));
  const std::string page = shown("html", {}, outlook);
  EXPECT_THAT(page, HasSubstr("By number of GPUs"));
  EXPECT_THAT(page, Not(HasSubstr("data-chart=\"costs\"")));
}

TEST(Outlooks, ATaxThatARunDidNotResolveHasAnIntervalAndNoValue) {
  Outlook outlook = sample_outlook();
  outlook.decision->inputs.tax_unresolved = true;
  EXPECT_THAT(shown("openmetrics", {}, outlook),
              Not(HasSubstr("dettax_decision_overhead_ratio{knobs=\"mode\"}")));
  EXPECT_THAT(shown("markdown", {}, outlook), HasSubstr("did not resolve its tax"));
}

TEST(Outlooks, ATaxThatLooksLikeTheRatioOfARecordIsSaidToBeOne) {
  DecisionOutlook outlook = *sample_outlook().decision;
  EXPECT_EQ(decision_words(outlook).size(), 1U) << "the cheapest knobs alone";
  outlook.inputs =
      load_decision_inputs("", {{"gpus", "8"}, {"run_hours", "9"}, {"overhead_ratio", "1.05"}});
  EXPECT_THAT(decision_words(outlook).at(1), HasSubstr("taken as a tax of +105.0 %"));
}

TEST(Outlooks, ARefusedSubsetSaysWhy) {
  Outlook outlook = sample_outlook();
  outlook.decision->inputs.cheapest = KnobSubset{{}, 0, 0, 0, "", "runs differ at forward/loss"};
  outlook.decision->decision = decide(outlook.decision->inputs, 100, 1);
  EXPECT_FALSE(outlook.decision->decision.cheapest.has_value());
  EXPECT_THAT(shown("markdown", {}, outlook), HasSubstr("runs differ at forward/loss"));
}

}  // namespace
}  // namespace dettax
