#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "results/analysis/acceptance/acceptance.h"
#include "results/analysis/acceptance/cells.h"
#include "results/reason.h"
#include "tests/analysis/fleet_records.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;

std::vector<Record> runs(int count, double ratio = 1, double overhead = 1.05) {
  std::vector<Record> records;
  for (int i = 0; i < count; ++i) records.push_back(node_record(i, {ratio, overhead}));
  return records;
}

TEST(Baseline, UnchangedPerformanceIsWithinItsSpread) {
  const Baseline baseline = make_baseline(runs(6));
  EXPECT_EQ(baseline.platform, "Example_CPU-2c-AVX2");
  const BaselineCheck check = check_baseline(baseline, {node_record(50)}, {});
  EXPECT_EQ(check.exit_code, 0);
  EXPECT_EQ(check.rows.size(), 7U);  // three step times, three memories, one ratio
}

TEST(Baseline, AChangeIsFoundOnEitherSide) {
  const Baseline baseline = make_baseline(runs(6));
  for (const double ratio : {0.85, 1.15}) {
    const BaselineCheck check = check_baseline(baseline, {node_record(50, {ratio})}, {});
    EXPECT_EQ(check.exit_code, 1) << ratio;
  }
  const BaselineCheck tax = check_baseline(baseline, {node_record(50, {1, 1.15})}, {});
  EXPECT_EQ(tax.exit_code, 1);
}

TEST(Baseline, TheToleranceFollowsFromTheSpread) {
  std::vector<Record> wide;
  for (int i = 0; i < 6; ++i) wide.push_back(node_record(i, {1 + 0.05 * (i % 3)}));
  const auto tolerance = [](const Baseline& baseline) {
    return check_baseline(baseline, {node_record(50)}, {}).rows.front().tolerance_ratio;
  };
  EXPECT_GT(tolerance(make_baseline(wide)), 2 * tolerance(make_baseline(runs(6))));
}

TEST(Baseline, FewRunsShowNothingAndOneIsRefused) {
  const std::vector<Record> two = {node_record(0), node_record(1, {1.04})};
  EXPECT_EQ(check_baseline(make_baseline(two), {node_record(50)}, {}).exit_code, 3);
  EXPECT_THROW(make_baseline(runs(1)), Error);
  EXPECT_THROW(make_baseline({}), Error);
}

TEST(Baseline, AnotherPlatformIsRefusedUnlessForced) {
  const Baseline baseline = make_baseline(runs(6));
  Record other = node_record(50);
  other.environment.cpu_model = "Another CPU";
  const BaselineCheck refused = check_baseline(baseline, {other}, {});
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_THAT(refused.provenance_differences.front(), HasSubstr("Another CPU"));
  BaselineSettings forced;
  forced.force = true;
  EXPECT_EQ(check_baseline(baseline, {other}, forced).exit_code, 0);
  std::vector<Record> mixed = runs(3);
  mixed.push_back(other);
  EXPECT_THROW(make_baseline(mixed), Error);
}

TEST(Baseline, WhatWasNotMeasuredIsNoPass) {
  const Baseline baseline = make_baseline(runs(6));
  Record broken = node_record(50);
  broken.verdict = make_verdict("not_reproducible", "");
  EXPECT_EQ(check_baseline(baseline, {broken}, {}).exit_code, 4);
  Record unknown = node_record(50);
  unknown.case_id = "another.fp32.dp1";
  EXPECT_EQ(check_baseline(baseline, {unknown}, {}).exit_code, 4);
  EXPECT_EQ(check_baseline(baseline, {}, {}).exit_code, 4);
}

TEST(Baseline, ItIsReadAsItWasWritten) {
  const Baseline baseline = make_baseline(runs(4));
  const std::string text = baseline_json(baseline);
  EXPECT_EQ(baseline_json(parse_baseline(text, "b.json")), text);
  EXPECT_THROW(parse_baseline("{}", "b.json"), Error);
  EXPECT_THROW(parse_baseline(text.substr(0, text.size() / 2), "b.json"), Error);
}

TEST(Baseline, WhatIsWrongInItsFileIsNamedByItsKey) {
  const std::string good = baseline_json(make_baseline(runs(4)));
  const auto with = [&](const std::string& old, const std::string& fresh) {
    std::string text = good;
    const size_t at = text.find(old);
    EXPECT_NE(at, text.npos) << old;
    text.replace(at, old.size(), fresh);
    try {
      parse_baseline(text, "b.json");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_EQ(with("\"count\": 4", "\"count\": 2.7"),
            "b.json: rows[0].count: must be a whole number");
  EXPECT_EQ(with("\"count\": 4", "\"count\": 18446744073709551615"),
            "b.json: rows[0].count: must be a whole number");
  EXPECT_EQ(with("\"count\": 4", "\"count\": 4, \"count\": 400"),
            "b.json: the key \"count\" stands twice in one object");
  EXPECT_EQ(with("\"count\": 4", "\"count\": 1"),
            "b.json: rows[0].count: at least 2 runs are expected");
  EXPECT_EQ(with("\"count\": 4", "\"count\": 4, \"often\": 1"),
            "b.json: rows[0].often: is no key of a baseline");
  EXPECT_EQ(with("\"platform\"", "\"platfrom\""), "b.json: platform: is missing");
  EXPECT_EQ(with("{", "{\"extra\": 1,"), "b.json: extra: is no key of a baseline");
  EXPECT_EQ(with("\"arm\": \"", "\"arm\": 3, \"was\": \""),
            "b.json: rows[0].arm: must be a string");
  EXPECT_EQ(with("\"schema_version\": 1", "\"schema_version\": 2"),
            "b.json: schema_version: is 2; this program reads 1");
  EXPECT_THAT(with("{", "{{"), HasSubstr("b.json:1: is not whole JSON"));
  EXPECT_EQ(with("\"rows\": [", "\"rows\": {}, \"were\": ["),
            "b.json: were: is no key of a baseline");
  const std::string empty = good.substr(0, good.find("\"rows\"")) + "\"rows\": {}}";
  try {
    parse_baseline(empty, "b.json");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "b.json: rows: must be a list of rows");
  }
}

TEST(Baseline, AcceptanceJudgesThroughputAgainstIt) {
  const Baseline baseline = make_baseline(runs(6));
  AcceptanceContext context;
  context.baseline = &baseline;
  const AcceptanceRules rules = load_acceptance_rules("default");
  const auto code = [&](double ratio) {
    return judge_acceptance({{node_record(50, {ratio}), 1}}, rules, context).exit_code;
  };
  EXPECT_EQ(code(1), ExitCode::pass);
  EXPECT_EQ(code(1.2), ExitCode::fail);
}

TEST(Cells, ABudgetTakesWhatShowsMostAndSaysWhatItLeaves) {
  const Suite suite = load_suite("quick");  // one rank, four ranks, another model
  const CellChoice all = choose_cells(suite, 1000);
  EXPECT_EQ(all.chosen.size(), suite.cases.size());
  EXPECT_TRUE(all.left_out.empty());
  const CellChoice one = choose_cells(suite, 1);
  ASSERT_EQ(one.chosen.size(), 1U);
  EXPECT_EQ(suite.cases[one.chosen[0]].layout.dp, 4);  // collectives act there alone
  EXPECT_EQ(one.left_out.size(), suite.cases.size() - 1);
  const Suite some = with_cells(suite, one);
  EXPECT_EQ(some.cases.size(), 1U);
  EXPECT_NE(some.hash, suite.hash);
}

}  // namespace
}  // namespace dettax
