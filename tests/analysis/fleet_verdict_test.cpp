// What acceptance must not let pass: other bits, limits that judge nothing, nodes and runs that were measured too badly to judge.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "results/reason.h"
#include "tests/analysis/fleet_records.h"

namespace dettax {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

using Inputs = std::vector<AcceptanceInput>;

Acceptance judged(const Inputs& inputs, const std::vector<Override>& rules = {}) {
  return judge_acceptance(inputs, load_acceptance_rules("default", rules));
}

// "gpu02 bits_differ", those about no node with an empty name.
std::vector<std::string> found(const Acceptance& acceptance) {
  std::vector<std::string> list;
  for (const AcceptanceFinding& one : acceptance.findings)
    list.push_back(one.node + " " + one.code);
  return list;
}

std::string words(const Acceptance& acceptance) {
  return acceptance.findings.empty() ? "" : acceptance.findings.front().words;
}

std::string& digest_of(AcceptanceInput& input) {
  return input.record.evidence.arms[1].ledger_digest;
}

const std::string kOther(32, 'a');  // sorts before that of the fleet

// --- bits

TEST(Bits, ANodeWithBitsOfItsOwnIsNamedThoughItRepeatsItself) {
  Inputs inputs = fleet(4);
  EXPECT_THAT(found(judged(inputs)), IsEmpty());
  digest_of(inputs[2]) = kOther;
  const Acceptance odd = judged(inputs);
  EXPECT_EQ(odd.exit_code, ExitCode::not_bit_exact);
  EXPECT_THAT(found(odd), ElementsAre("gpu02 bits_differ"));
  EXPECT_THAT(words(odd), HasSubstr("not those of 3 nodes that are set up alike"));
  EXPECT_FALSE(drain_command(odd.nodes[2]).empty());
}

TEST(Bits, OfTwoHalvesNobodySaysWhichIsRight) {
  for (const int nodes : {2, 4}) {
    Inputs inputs = fleet(nodes);
    for (int node = 0; node < nodes / 2; ++node)
      digest_of(inputs[static_cast<size_t>(node)]) = kOther;
    const Acceptance split = judged(inputs);
    EXPECT_EQ(split.exit_code, ExitCode::not_bit_exact);
    EXPECT_THAT(found(split), ElementsAre(" bits_differ"));
    EXPECT_THAT(words(split), HasSubstr("no majority says which are right"));
    EXPECT_EQ(split.findings.front().case_id, inputs[0].record.case_id);
    EXPECT_TRUE(std::ranges::none_of(split.nodes, &NodeVerdict::hardware));
  }
}

TEST(Bits, AreComparedBetweenNodesThatAreSetUpAlikeOnly) {
  const auto codes = [](const std::function<void(Record&)>& change) {
    Inputs inputs = fleet(4);
    digest_of(inputs[2]) = kOther;
    change(inputs[2].record);
    return found(judged(inputs));
  };
  EXPECT_THAT(codes([](Record& record) { record.environment.kernel = "Linux 5.15"; }),
              ElementsAre("gpu02 configuration_differs"));
  EXPECT_THAT(codes([](Record& record) { record.arms[2].engaged["gemm"] = "arrival"; }),
              ElementsAre("gpu02 configuration_differs"));
  EXPECT_THAT(codes([](Record& record) {
                for (ScopeEvidence& scope : record.evidence.arms[1].scopes) scope.compared /= 2;
              }),
              IsEmpty())
      << "a ledger of another depth";
  EXPECT_THAT(codes([](Record& record) { record.arms[2].claims_reproducible = false; }), IsEmpty());
  Inputs pairs = fleet(4);
  digest_of(pairs[2]) = kOther;
  for (AcceptanceInput& input : pairs) {
    for (ArmResult& arm : input.record.arms) arm.places[0].host += "b";
  }
  EXPECT_THAT(found(judged(pairs)), IsEmpty()) << "of two nodes none can be named";
}

TEST(Bits, ANodeWhoseRunsDifferIsNotReproducibleAndHasNoVote) {
  Inputs inputs = fleet(3);
  inputs.push_back(inputs[1]);
  inputs[3].record.run_id += "-2";
  EXPECT_THAT(found(judged(inputs)), IsEmpty());
  digest_of(inputs[3]) = kOther;
  const Acceptance apart = judged(inputs);
  EXPECT_THAT(found(apart), ElementsAre("gpu01 not_reproducible"));
  EXPECT_THAT(words(apart), HasSubstr("not from one run to another"));
}

TEST(Bits, OneScopeThatDiffersOutweighsWhatTheArmClaims) {
  AcceptanceInput scope{sample_record(), 1};
  scope.record.evidence.arms[1].scopes[1].equal = false;
  scope.record.evidence.arms[1].scopes[1].first_difference = "step 3";
  EXPECT_EQ(judged({scope}).exit_code, ExitCode::not_bit_exact);
  EXPECT_THAT(words(judged({scope})), HasSubstr("over relaunch: step 3"));
  AcceptanceInput ranks{sample_record(), 1};
  ranks.record.evidence.arms[1].ranks = {true, false, 96, "rank 1: step 4"};
  EXPECT_EQ(judged({ranks}).exit_code, ExitCode::not_bit_exact);
  EXPECT_THAT(words(judged({ranks})), HasSubstr("ranks disagree: rank 1: step 4"));
}

// --- limits

TEST(Limits, OneThatJudgesNothingIsNamed) {
  const Inputs one{{sample_record(), 1}};
  EXPECT_THAT(words(judged(one, {{"limits", "[{case: 'gpt*', min_tokens_per_second: 1}]"}})),
              HasSubstr("the limit of case \"gpt*\" judges nothing"));
  EXPECT_THAT(words(judged(one, {{"limits", "[{arm: inv, max_overhead_ratio: 1.5}]"}})),
              HasSubstr("case \"*\" and arm \"inv\" judges nothing"));
  // The arm is a matter of the tax alone.
  EXPECT_THAT(found(judged(one, {{"limits", "[{arm: inv, min_tokens_per_second: 1}]"}})),
              IsEmpty());
}

// What the suite found stands, unless limits here judge every arm that it may have been about.
TEST(Limits, TheRecordsOwnVerdictIsKeptWhereAnArmHasNone) {
  AcceptanceInput input{sample_record(), 1};
  ArmResult second = input.record.arms[2];
  Tax tax = input.record.taxes[0];
  ArmEvidence evidence = input.record.evidence.arms[1];
  second.arm = tax.arm = evidence.arm = "invariant";
  input.record.arms.push_back(second);
  input.record.taxes.push_back(tax);
  input.record.evidence.arms.push_back(evidence);
  for (const char* code : {"over_limit", "not_resolved"}) {
    input.record.verdict = make_verdict(code, "deterministic: +1.6 %, limit +1.0 %.");
    const auto with = [&](const std::string& arm) {
      return found(
          judged({input}, {{"limits", "[{arm: '" + arm + "', max_overhead_ratio: 1.1}]"}}));
    };
    EXPECT_THAT(with("deterministic"), ElementsAre(std::string("node1 ") + code));
    EXPECT_THAT(with("invariant"), ElementsAre(std::string("node1 ") + code));
    EXPECT_THAT(with("*"), IsEmpty());
  }
  input.record.taxes[1].published = false;
  EXPECT_EQ(judged({input}).exit_code, ExitCode::inconclusive);
}

TEST(Limits, ATaxBesideALimitCountsTheControlsBias) {
  AcceptanceInput input{sample_record(), 1};
  Tax& tax = input.record.taxes[0];
  tax.overhead_ratio = {1.04, 1.03, 1.05, 8};
  const auto code = [&](const char* limit) {
    return judged({input}, {{"limits", fmt::format("[{{max_overhead_ratio: {}}}]", limit)}})
        .exit_code;
  };
  tax.control_ratio = Estimate{1.03, 0.99, 1.07, 8};  // not shown to be apart
  EXPECT_EQ(code("1.06"), ExitCode::pass);
  EXPECT_EQ(code("1.02"), ExitCode::fail);
  tax.control_ratio = Estimate{1.03, 1.02, 1.04, 8};
  EXPECT_EQ(code("1.06"), ExitCode::inconclusive);
  EXPECT_EQ(code("1.02"), ExitCode::inconclusive);
  EXPECT_EQ(code("1.09"), ExitCode::pass);
  EXPECT_THAT(words(judged({input}, {{"limits", "[{max_overhead_ratio: 1.06}]"}})),
              HasSubstr("fast is 3.0 % apart from itself"));
}

// --- what was measured too badly

void widen(AcceptanceInput& input, double ratio) {
  Estimate& step = *input.record.arms[0].step_time_seconds;
  step.low = step.value / ratio;
  step.high = step.value * ratio;
}

TEST(BadlyMeasured, AnIntervalThatHoldsBothFleetAndFaultIsUndecided) {
  for (const int nodes : {4, 16}) {
    Inputs inputs = fleet(nodes);
    widen(inputs[3], 1.02);
    EXPECT_THAT(found(judged(inputs)), IsEmpty()) << nodes;
    widen(inputs[3], 1.3);
    const Acceptance wide = judged(inputs);
    EXPECT_EQ(wide.exit_code, ExitCode::inconclusive);
    EXPECT_THAT(found(wide), ElementsAre("gpu03 badly_measured"));
    EXPECT_THAT(words(wide), HasSubstr("too large to tell a fault of +5.0 % from none"));
    EXPECT_FALSE(wide.nodes[3].hardware);
  }
}

TEST(BadlyMeasured, OfTwoNodesTheOneWithTheWiderIntervalIsNamed) {
  Inputs inputs =
      fleet(2, [](int node, NodeKind& kind) { kind.fast_ratio = node == 1 ? 1.15 : 1; });
  EXPECT_THAT(found(judged(inputs)), ElementsAre("gpu01 too_few_peers"));
  widen(inputs[0], 1.3);
  EXPECT_THAT(found(judged(inputs)), ElementsAre("gpu00 badly_measured"));
}

TEST(BadlyMeasured, WhereEveryNodeIsSoNoneIsSingledOut) {
  Inputs inputs = fleet(16);
  for (AcceptanceInput& input : inputs) widen(input, 1.3);
  EXPECT_THAT(found(judged(inputs)), IsEmpty());
}

TEST(BadlyMeasured, RunsOfOneNodeThatDisagreeAreSaid) {
  Inputs inputs = fleet(4);
  AcceptanceInput again{node_record(2, {1.2}), 2};
  again.record.run_id += "-2";
  inputs.push_back(again);
  const Acceptance apart = judged(inputs);
  EXPECT_EQ(apart.exit_code, ExitCode::inconclusive);
  EXPECT_THAT(found(apart), testing::Contains("gpu02 badly_measured"));
  EXPECT_THAT(words(apart), HasSubstr("between its own 2 runs (3 attempts)"));
  again.record = node_record(2);
  again.record.run_id += "-2";
  inputs.back() = again;
  EXPECT_THAT(found(judged(inputs)), IsEmpty());
}

TEST(BadlyMeasured, WhatOtherNodesHaveAndOneLacksIsNotAccepted) {
  Inputs fast = fleet(4);
  fast[1].record.arms[0].step_time_seconds->low = 0;
  EXPECT_THAT(found(judged(fast)), ElementsAre("gpu01 no_measurement"));
  EXPECT_THAT(words(judged(fast)), HasSubstr("the fast step is missing or unusable"));
  Inputs ratio = fleet(4);
  ratio[1].record.taxes.clear();
  EXPECT_THAT(found(judged(ratio)), ElementsAre("gpu01 no_measurement"));
  EXPECT_THAT(words(judged(ratio)), HasSubstr("the ratio of deterministic is missing"));
  for (AcceptanceInput& input : ratio) input.record.taxes.clear();
  EXPECT_THAT(found(judged(ratio)), IsEmpty());
  for (AcceptanceInput& input : fast) input.record.arms[0].step_time_seconds->low = 0;
  EXPECT_THAT(found(judged(fast)), IsEmpty()) << "no node has it";
  Inputs runs(2, fleet(1).front());
  runs[1].record.run_id += "-2";
  runs[1].record.arms[0].step_time_seconds->low = 0;
  EXPECT_THAT(found(judged(runs)), IsEmpty()) << "no other node has it";
}

TEST(BadlyMeasured, ARatioBesideAControlThatDiffersIsHeldAgainstNoHardware) {
  Inputs inputs =
      fleet(16, [](int node, NodeKind& kind) { kind.overhead_ratio = node == 7 ? 1.15 : 1.05; });
  EXPECT_THAT(found(judged(inputs)), ElementsAre("gpu07 odd_ratio"));
  inputs[7].record.verdict = make_verdict("control_differs", "control: +4.0 %.");
  EXPECT_THAT(found(judged(inputs)), ElementsAre("gpu07 control_differs"));
}

// --- settings without a majority

TEST(Split, NodesAreComparedWithinEqualSettings) {
  const auto split = [](double second_half, int slow) {
    Inputs inputs = fleet(32, [&](int node, NodeKind& kind) {
      kind.fast_ratio = (node < 16 ? 1 : second_half) * (node == slow ? 1.2 : 1);
    });
    for (size_t node = 0; node < 16; ++node) inputs[node].record.environment.kernel = "Linux 5.15";
    return inputs;
  };
  EXPECT_THAT(found(judged(split(1.3, -1))), ElementsAre(" configuration_differs"));
  EXPECT_THAT(words(judged(split(1.3, -1))), HasSubstr("only nodes alike in it are compared"));
  EXPECT_THAT(found(judged(split(1.3, 20))),
              ElementsAre(" configuration_differs", "gpu20 slow_node"));
  Inputs memory = split(1, -1);
  for (size_t node = 0; node < 16; ++node) memory[node].record.arms[0].memory_peak_bytes *= 10;
  for (AcceptanceInput& input : memory) input.record.arms[0].memory_estimate_bytes = 0;
  EXPECT_THAT(found(judged(memory)), ElementsAre(" configuration_differs"));
}

// --- ranks

TEST(Roles, ARankThatIsSlowOnEveryNodeHasMoreToDo) {
  const auto pipeline = [](int nodes, int odd) {
    return fleet(nodes, [&](int node, NodeKind& kind) {
      kind.slow_rank = 6;
      kind.rank_ratio = node == odd ? 1.5 : 1.15;
    });
  };
  const Acceptance alike = judged(pipeline(4, -1));
  EXPECT_THAT(found(alike), IsEmpty());
  EXPECT_THAT(alike.notes,
              testing::Contains(HasSubstr("rank 6 takes 1.15 times its median peer's "
                                          "step on every node: its part of the work")));
  const Acceptance slower = judged(pipeline(4, 2));
  ASSERT_THAT(found(slower), testing::Contains("gpu02 slow_rank"));
  EXPECT_THAT(slower.findings.front().words, HasSubstr("1.15 times on most nodes"));
}

TEST(Roles, CountWhereRanksAreTooFewToBePooled) {
  Inputs inputs = fleet(2, [](int, NodeKind& kind) {
    kind.slow_rank = 2;
    kind.rank_ratio = 1.15;
  });
  const auto keep_ranks = [&](size_t count) {
    for (AcceptanceInput& input : inputs) {
      for (Block& block : input.record.arms[0].blocks) block.step_time_seconds.resize(count);
    }
  };
  keep_ranks(3);
  EXPECT_THAT(found(judged(inputs)), IsEmpty());
  inputs.pop_back();
  EXPECT_THAT(found(judged(inputs)), ElementsAre("gpu00 slow_rank"))
      << "alone nothing tells its role";
}

TEST(Roles, OfTwoNodesTheStragglerOfOneIsNoRole) {
  const Acceptance pair = judged(fleet(2, [](int node, NodeKind& kind) {
    if (node != 1) return;
    kind.slow_rank = 6;
    kind.rank_ratio = 1.15;
  }));
  EXPECT_THAT(found(pair), testing::Contains("gpu01 slow_rank"));
  EXPECT_THAT(pair.notes, Not(testing::Contains(HasSubstr("its part of the work"))));
}

// --- baselines

TEST(BaselineOfAFleet, ACaseThatWasNotRunIsNoPass) {
  std::vector<Record> records;
  for (int run = 0; run < 6; ++run) {
    records.push_back(node_record(run));
    records.push_back(records.back());
    records.back().case_id = "other.fp32.dp2.t1.b8x64";
  }
  const Baseline baseline = make_baseline(records);
  Record one = node_record(50), both = one;
  both.case_id = records.back().case_id;
  EXPECT_EQ(check_baseline(baseline, {one, both}, {}).exit_code, 0);
  EXPECT_EQ(check_baseline(baseline, {one}, {}).exit_code, 4);
  AcceptanceContext context;
  context.baseline = &baseline;
  const Acceptance lacking =
      judge_acceptance({{one, 1}}, load_acceptance_rules("default"), context);
  EXPECT_EQ(lacking.exit_code, ExitCode::infrastructure);
  EXPECT_THAT(words(lacking), StartsWith("other.fp32.dp2.t1.b8x64 on gpu50: was not measured"));
}

}  // namespace
}  // namespace dettax
