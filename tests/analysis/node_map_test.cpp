#include "results/analysis/acceptance/node_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "results/reason.h"
#include "tests/analysis/fleet_records.h"

namespace dettax {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<NodeMapRow> map_of(const std::vector<Record>& records) {
  std::vector<const Record*> list;
  for (const Record& record : records) list.push_back(&record);
  return node_map(list);
}

std::vector<Record> records_of(const std::vector<AcceptanceInput>& inputs) {
  std::vector<Record> records;
  for (const AcceptanceInput& input : inputs) records.push_back(input.record);
  return records;
}

std::vector<std::string> odd_in(const std::vector<NodeMapRow>& rows) {
  std::vector<std::string> names;
  for (const NodeMapRow& row : rows) {
    if (row.odd) names.push_back(row.node);
  }
  return names;
}

TEST(NodeMap, HasARowANodeWithItsPlaceInTheFleet) {
  std::vector<Record> records = records_of(fleet(8, [](int node, NodeKind& kind) {
    kind.fast_ratio = node == 5 ? 1.2 : 1;
    kind.overhead_ratio = node == 5 ? 1.15 : 1.05;
  }));
  Record again = records[5];
  again.run_id += "-2";
  again.evidence.arms[1].reproducible = false;
  records.push_back(again);
  const std::vector<NodeMapRow> rows = map_of(records);
  ASSERT_EQ(rows.size(), 8U);
  EXPECT_THAT(odd_in(rows), ElementsAre("gpu05"));
  const NodeMapRow& odd = rows.front();
  EXPECT_NEAR(*odd.fast_ratio, 1.2, 0.02);
  EXPECT_NEAR(*odd.overhead_ratio, 1.15, 0.01);
  EXPECT_NEAR(*odd.odd_ratio, 1.15 / 1.05, 0.01);
  EXPECT_EQ(odd.cases, 1);
  EXPECT_EQ(odd.claiming, 2);
  EXPECT_EQ(odd.reproduced, 1);
  EXPECT_THAT(odd.words, HasSubstr("the fast step is +1"));
  EXPECT_THAT(odd.words, HasSubstr("the ratio of deterministic is +"));
  EXPECT_EQ(rows[1].node, "gpu00");
  EXPECT_NEAR(*rows[1].fast_ratio, 1, 0.02);
}

TEST(NodeMap, OfOneNodeThereIsNone) {
  EXPECT_TRUE(map_of(records_of(fleet(1))).empty());
  EXPECT_TRUE(map_of({}).empty());
}

TEST(NodeMap, AcceptancesVerdictStandsWhereItJudged) {
  const std::vector<AcceptanceInput> inputs =
      fleet(8, [](int node, NodeKind& kind) { kind.fast_ratio = node == 5 ? 1.2 : 1; });
  std::vector<Record> records = records_of(inputs);
  records[3].verdict = make_verdict("rank_crashed", "rank 1 ended");
  EXPECT_THAT(odd_in(map_of(records)), ElementsAre("gpu03", "gpu05"));
  for (Record& one : acceptance_records(judge_acceptance(inputs, load_acceptance_rules("default"))))
    records.push_back(std::move(one));
  const std::vector<NodeMapRow> rows = map_of(records);
  EXPECT_THAT(odd_in(rows), ElementsAre("gpu05"));
  EXPECT_EQ(rows.front().verdict, "slow_node");
  EXPECT_THAT(rows.front().words, HasSubstr("times the fleet's median"));
  EXPECT_EQ(rows[1].verdict, "accepted");
  EXPECT_EQ(rows.size(), 8U) << "acceptance's own records are no nodes";
}

}  // namespace
}  // namespace dettax
