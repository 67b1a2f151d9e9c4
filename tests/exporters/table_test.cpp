#include "exporters/table.h"

#include <algorithm>
#include <limits>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "results/run_folder.h"
#include "tests/exporters/samples.h"

namespace dettax {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string table(const std::vector<Record>& records, const TableStyle& style = {}) {
  std::ostringstream out;
  write_table(out, records, style);
  return out.str();
}

size_t widest_line(const std::string& text) {
  size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

std::vector<Record> all_kinds() {
  return {sample_record(), inconclusive(), skipped(), crashed(), not_reproducible()};
}

TEST(Table, CausesLookLikeThis) { expect_golden(table({record_with_causes()}), "causes.txt"); }

TEST(Table, SaysWhyThereAreNoCauses) {
  Record record = record_with_causes();
  record.profiles[0].refusal = "a trace lost 3 records";
  record.ablation->refusal = "too little memory";
  const std::string text = table({record});
  EXPECT_THAT(text, HasSubstr("deterministic: nothing attributed: a trace lost 3 records"));
  EXPECT_THAT(text, HasSubstr("no matrix of knobs: too little memory"));
  EXPECT_THAT(text, Not(HasSubstr("exposed_comm")));
}

TEST(Table, PassLooksLikeThis) { expect_golden(table({sample_record()}), "pass.txt"); }
TEST(Table, EveryKindOfVerdictLooksLikeThis) { expect_golden(table(all_kinds()), "all.txt"); }
TEST(Table, InColourItLooksLikeThis) {
  expect_golden(table(all_kinds(), {true, 100}), "all_colour.txt");
}
TEST(Table, OnANarrowTerminalItLooksLikeThis) {
  expect_golden(table(all_kinds(), {false, 80}), "all_80.txt");
}

TEST(Table, WhatDidNotRunIsNoProxy) {
  Record record = skipped();
  record.planned.model.layers = 1;
  record.planned.model.published_layers = 96;
  EXPECT_THAT(table({record}), Not(HasSubstr("proxy")));
  EXPECT_THAT(table({inconclusive()}), HasSubstr("proxy: 2 of the 12 layers of tiny ran"));
}

TEST(Table, SaysThatCoresWereShared) {
  Record record = sample_record();
  record.environment.cores = 1;
  record.planned.topology.ranks_per_node = 2;
  EXPECT_THAT(table({record}),
              HasSubstr("2 ranks of 1 thread on 1 core: step times include waiting for a core"));
  EXPECT_THAT(table({sample_record()}), Not(HasSubstr("waiting for a core")));
}

TEST(Table, ANumberThatIsNoneIsUnknown) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Record record = sample_record();
  record.taxes[0].overhead_ratio = {-nan, -nan, nan, 4};
  record.taxes[0].control_ratio = {{nan, nan, nan, 4}};
  record.arms[0].step_time_seconds = {{nan, -nan, nan, 4}};
  record.arms[0].tokens_per_second = nan;
  EXPECT_THAT(table({record}), Not(HasSubstr("nan")));
}

TEST(Table, SaysThatAnEmulatedPrecisionHasNoTax) {
  Record record = sample_record();
  record.precision_note = "bf16 is emulated.";
  record.taxes[0].published = false;
  EXPECT_THAT(table({record}), HasSubstr("void  emulated"));
  record.precision_note.clear();
  EXPECT_THAT(table({record}), HasSubstr("void  no evidence"));
}

TEST(Table, SaysWhichKnobsWouldHaveBeenCaught) {
  Record record = sample_record();
  EXPECT_THAT(table({record}, {false, 200}),
              HasSubstr("\n  controls caught: gemm norm; not shown: loss (equal in 12 runs), "
                        "collectives (one rank)\n"));
  record.evidence.controls[0].status = ControlStatus::misplaced;
  record.evidence.controls[0].reason = "first difference at state";
  EXPECT_THAT(table({record}, {false, 200}),
              HasSubstr("\n! controls caught: norm; at another op: gemm (first difference at "
                        "state); not shown: loss"));
  for (KnobControl& control : record.evidence.controls) {
    control.status = ControlStatus::not_run;
    control.reason = "evidence.controls is off";
  }
  EXPECT_THAT(table({record}, {false, 200}),
              HasSubstr("\n  controls not run: gemm norm loss collectives (evidence.controls is "
                        "off)\n"));
  record.evidence.controls.clear();
  EXPECT_THAT(table({record}), Not(HasSubstr("controls")));
}

TEST(Table, FitsTheTerminal) {
  for (int width : {80, 100})
    EXPECT_LE(widest_line(table(all_kinds(), {false, width})), static_cast<size_t>(width));
}

TEST(Table, ColourAddsNothingButColour) {
  std::string coloured = table(all_kinds(), {true, 100});
  EXPECT_THAT(coloured, HasSubstr("\x1b["));
  for (size_t at = 0; (at = coloured.find('\x1b', at)) != std::string::npos;)
    coloured.erase(at, coloured.find('m', at) - at + 1);
  EXPECT_EQ(coloured, table(all_kinds()));
  EXPECT_THAT(table(all_kinds()), Not(HasSubstr("\x1b")));
}

TEST(Table, BadNewsComesFirst) {
  const std::string text = table(all_kinds());
  const auto at = [&](const char* what) { return text.find(what); };
  EXPECT_LT(at("\nERROR "), at("\nFAIL "))
      << "errors and violations keep the order of the plan among themselves";
  EXPECT_LT(at("\nFAIL "), at("\nINCONCLUSIVE "));
  EXPECT_LT(at("\nINCONCLUSIVE "), at("\nPASS "));
  EXPECT_LT(at("\nPASS "), at("\nSKIPPED "));
}

TEST(Table, AVoidTaxShowsNoNumber) {
  const std::string text = table({not_reproducible()});
  EXPECT_THAT(text, HasSubstr("void"));
  EXPECT_THAT(text, Not(HasSubstr("+1.63 %")));
  EXPECT_THAT(text, HasSubstr("dqkv differs"));
}

TEST(Table, AnArmThatClaimsNothingHasNoTaxAndMayDiffer) {
  Record record = not_reproducible();
  record.verdict = make_verdict("no_claim", "");
  record.arms[2].claims_reproducible = false;
  const std::string text = table({record});
  EXPECT_THAT(text, HasSubstr("No mode claims to reproduce its bits, so that no tax is judged."));
  EXPECT_THAT(text, HasSubstr("none  claims nothing"));
  EXPECT_THAT(text, Not(HasSubstr("DIFFER")));
  EXPECT_THAT(text, Not(HasSubstr("void")));
}

TEST(Table, TheMachineIsThatOfTheFirstCaseThatRan) {
  Record missing;
  missing.case_id = "first";
  missing.verdict = make_verdict("incomplete", "It was not started.");
  const std::string text = table({missing, sample_record()});
  EXPECT_THAT(text, testing::StartsWith("dettax 0.1.0  suite quick"));
  EXPECT_THAT(text, HasSubstr("2 cases: 1 error, 1 pass"));
  EXPECT_THAT(text, HasSubstr("exit code 4"));
  EXPECT_THAT(table({missing}), testing::StartsWith("ERROR  first  (incomplete)"));
}

TEST(Table, SaysWhichNodesAndLinksAreEmulated) {
  Record record = sample_record();
  EXPECT_THAT(table({record}), Not(HasSubstr("topology:")));
  record.arms[0].engaged["nodes"] = "2 (emulated in one process)";
  record.arms[0].engaged["links"] = "between nodes 119 MiB/s and 50.0 us (emulated)";
  EXPECT_THAT(table({record}), HasSubstr("topology: nodes 2 (emulated in one process); links"));
  record.arms[0].engaged = {{"nodes", "2"}};  // of a real job
  EXPECT_THAT(table({record}), Not(HasSubstr("topology:")));
}

TEST(Table, NoRecordIsNoPass) {
  EXPECT_THAT(table({}), HasSubstr("exit code 77: everything was skipped"));
}

TEST(ComparisonTable, LooksLikeThis) {
  Record slower = sample_record();
  slower.arms[2].step_time_seconds = Estimate{0.0145, 0.0144, 0.0146, 8};
  slower.taxes[0].overhead_ratio = {1.18, 1.17, 1.19, 4};
  std::ostringstream out;
  write_comparison(out, compare_runs({sample_record()}, {slower}, {}), {});
  expect_golden(out.str(), "comparison.txt");
}

TEST(ComparisonTable, ARefusalNamesWhatDiffers) {
  Record other = sample_record();
  other.environment.cpu_model = "Another CPU";
  std::ostringstream out;
  write_comparison(out, compare_runs({sample_record()}, {other}, {}), {});
  expect_golden(out.str(), "comparison_refused.txt");
}

}  // namespace
}  // namespace dettax
