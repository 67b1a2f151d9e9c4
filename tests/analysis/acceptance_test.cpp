#include "results/analysis/acceptance/acceptance.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "results/analysis/acceptance/idle.h"
#include "results/reason.h"
#include "tests/analysis/fleet_records.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

AcceptanceRules rules() { return load_acceptance_rules("default"); }

const NodeVerdict& node(const Acceptance& acceptance, const std::string& name) {
  const auto found = std::ranges::find(acceptance.nodes, name, &NodeVerdict::node);
  EXPECT_NE(found, acceptance.nodes.end()) << name;
  return *found;
}

std::vector<std::string> accused(const Acceptance& acceptance) {
  std::vector<std::string> names;
  for (const NodeVerdict& one : acceptance.nodes) {
    if (one.status != Status::pass) names.push_back(one.node + " " + one.code);
  }
  return names;
}

const RuleSummary& summary(const Acceptance& acceptance, const std::string& rule) {
  return *std::ranges::find(acceptance.summaries, rule, &RuleSummary::rule);
}

TEST(Acceptance, ACleanFleetIsAccepted) {
  const Acceptance found = judge_acceptance(fleet(16), rules());
  EXPECT_EQ(found.exit_code, ExitCode::pass) << acceptance_json(found);
  EXPECT_EQ(found.nodes.size(), 16U);
  EXPECT_EQ(summary(found, "fleet").judged, 32);  // fast step and ratio
  EXPECT_EQ(summary(found, "stragglers").judged, 128);
  EXPECT_THAT(summary(found, "baseline").words, HasSubstr("none was given"));
}

TEST(Acceptance, ANodeThatIsSlowIsNamedWithItsBits) {
  const Acceptance found = judge_acceptance(
      fleet(16, [](int n, NodeKind& kind) { kind.fast_ratio = n == 5 ? 1.12 : 1; }), rules());
  EXPECT_EQ(found.exit_code, ExitCode::fail);
  EXPECT_THAT(accused(found), ::testing::ElementsAre("gpu05 slow_node"));
  EXPECT_THAT(node(found, "gpu05").words, HasSubstr("its bits are fine"));
  EXPECT_EQ(drain_command(node(found, "gpu05")),
            (std::vector<std::string>{"scontrol", "update", "NodeName=gpu05", "State=DRAIN",
                                      "Reason=dettax:slow_node"}));
  EXPECT_TRUE(drain_command(node(found, "gpu04")).empty());
}

TEST(Acceptance, ANodeWhoseRatioIsOddIsNamedThoughItsFastStepIsNormal) {
  const Acceptance found = judge_acceptance(
      fleet(16, [](int n, NodeKind& kind) { kind.overhead_ratio = n == 7 ? 1.15 : 1.05; }),
      rules());
  EXPECT_THAT(accused(found), ::testing::ElementsAre("gpu07 odd_ratio"));
  EXPECT_NEAR(*node(found, "gpu07").odd_ratio, 1.15 / 1.05, 0.01);
  EXPECT_NEAR(*node(found, "gpu07").fast_ratio, 1, 0.02);
}

TEST(Acceptance, ANodeThatIsFastIsFlaggedAndNotAccepted) {
  const Acceptance found = judge_acceptance(
      fleet(16, [](int n, NodeKind& kind) { kind.fast_ratio = n == 5 ? 0.8 : 1; }), rules());
  EXPECT_EQ(found.exit_code, ExitCode::inconclusive);
  EXPECT_THAT(accused(found), ::testing::ElementsAre("gpu05 fast_node"));
  EXPECT_FALSE(node(found, "gpu05").hardware);
}

TEST(Acceptance, TwoNodesCannotSayWhichOfThemIsOdd) {
  const Acceptance found = judge_acceptance(
      fleet(2, [](int n, NodeKind& kind) { kind.fast_ratio = n == 1 ? 1.3 : 1; }), rules());
  EXPECT_EQ(found.exit_code, ExitCode::inconclusive);
  EXPECT_THAT(found.findings.front().words, HasSubstr("nobody can say which is odd"));
  EXPECT_EQ(judge_acceptance(fleet(2), rules()).exit_code, ExitCode::pass);
}

TEST(Acceptance, TheOrderOfRunsDoesNotMatterAndTheBytesRepeat) {
  auto inputs = fleet(9, [](int n, NodeKind& kind) { kind.fast_ratio = n == 5 ? 1.3 : 1; });
  const std::string once = acceptance_json(judge_acceptance(inputs, rules()));
  EXPECT_EQ(once, acceptance_json(judge_acceptance(inputs, rules())));
  std::ranges::reverse(inputs);
  EXPECT_EQ(once, acceptance_json(judge_acceptance(inputs, rules())));
}

TEST(Acceptance, OnePassDoesNotMakeUpForAFailure) {
  auto inputs = fleet(4);
  AcceptanceInput failed = inputs[2];
  failed.record.run_id += "-2";
  failed.record.verdict = make_verdict("not_reproducible", "seen once");
  inputs.push_back(failed);
  const Acceptance found = judge_acceptance(inputs, rules());
  EXPECT_EQ(found.exit_code, ExitCode::not_bit_exact);
  EXPECT_THAT(accused(found), ::testing::ElementsAre("gpu02 not_reproducible"));
  EXPECT_EQ(node(found, "gpu02").attempts, 2);
}

TEST(Acceptance, TooManyAttemptsAreNoPass) {
  auto inputs = fleet(4);
  inputs[1].attempts = 4;
  const Acceptance found = judge_acceptance(inputs, rules());
  EXPECT_EQ(found.exit_code, ExitCode::inconclusive);
  EXPECT_THAT(accused(found), ::testing::ElementsAre("gpu01 too_many_attempts"));
}

TEST(Acceptance, APartialRunKeepsWhatIsFinishedAndIsNotComplete) {
  auto inputs = fleet(4);
  AcceptanceInput open = inputs[0];
  open.record = Record{};
  open.record.run_id = inputs[0].record.run_id;
  open.record.case_id = "other.fp32.dp1.t1.b1x8";
  open.record.verdict = make_verdict("incomplete", "It was not started; --resume runs it.");
  inputs.push_back(open);
  const Acceptance found = judge_acceptance(inputs, rules());
  EXPECT_EQ(found.exit_code, ExitCode::infrastructure);
  EXPECT_EQ(summary(found, "fleet").kept, 8);
  EXPECT_EQ(node(found, "gpu00").code, "incomplete");
  // The others lack it as well, and are told.
  EXPECT_EQ(accused(found).size(), 4U);
}

TEST(Acceptance, EveryExitCodeOfAVerdictIsReached) {
  const auto code = [](const char* reason) {
    AcceptanceInput input{sample_record(), 1};
    input.record.verdict = make_verdict(reason, "");
    return static_cast<int>(judge_acceptance({input}, rules()).exit_code);
  };
  EXPECT_EQ(code("within_limit"), 0);
  EXPECT_EQ(code("non_finite"), 1);
  EXPECT_EQ(code("configuration"), 2);
  EXPECT_EQ(code("control_differs"), 3);
  EXPECT_EQ(code("rank_crashed"), 4);
  EXPECT_EQ(code("not_reproducible"), 5);
  EXPECT_EQ(code("internal"), 70);
  EXPECT_EQ(code("refused"), 77);
  EXPECT_EQ(code("timeout"), 124);
  EXPECT_EQ(static_cast<int>(judge_acceptance({}, rules()).exit_code), 4);
}

TEST(Acceptance, LimitsAreOfTheCasesThatTheirGlobTakes) {
  const AcceptanceInput input{sample_record(), 1};  // +1.0 % to +2.3 %, detectable from +0.7 %
  const auto code = [&](const std::string& limits) {
    return static_cast<int>(
        judge_acceptance({input}, load_acceptance_rules("default", {{"limits", limits}}))
            .exit_code);
  };
  EXPECT_EQ(code("[{case: 'tiny*', max_overhead_ratio: 1.03}]"), 0);
  EXPECT_EQ(code("[{case: 'tiny*', max_overhead_ratio: 1.02}]"), 3);
  EXPECT_EQ(code("[{case: 'tiny*', max_overhead_ratio: 1.005}]"), 1);
  // A limit that judges nothing shows nothing, and may be a slip of the pen.
  EXPECT_EQ(code("[{case: 'gpt*', max_overhead_ratio: 1.005}]"), 3);
  EXPECT_EQ(code("[{arm: invariant, max_overhead_ratio: 1.005}]"), 3);
  EXPECT_EQ(code("[]"), 0);
  EXPECT_EQ(code("[{min_tokens_per_second: 1e9}]"), 1);
  EXPECT_EQ(code("[{max_memory_peak_bytes: 1000}]"), 1);
}

TEST(Acceptance, EvidenceIsDemandedOverEveryScope) {
  const AcceptanceInput input{sample_record(), 1};
  const Acceptance found = judge_acceptance(
      {input}, load_acceptance_rules("default", {{"evidence.scopes", "[restart_replay]"}}));
  EXPECT_EQ(found.exit_code, ExitCode::inconclusive);
  EXPECT_EQ(found.findings.front().code, "evidence_missing");
  AcceptanceInput without = input;
  without.record.evidence.arms.clear();
  EXPECT_EQ(judge_acceptance({without}, rules()).exit_code, ExitCode::not_bit_exact);
}

TEST(Acceptance, RulesRefuseUnknownKeysAndValuesOutOfRange) {
  const auto refused = [](const std::string& key, const std::string& value) {
    try {
      load_acceptance_rules("default", {{key, value}});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::config);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refused("fleet.slow_ration", "1.2"), HasSubstr("slow_ratio"));
  EXPECT_THAT(refused("fleet.slow_ratio", "0.9"), HasSubstr("slow_ratio"));
  EXPECT_THAT(refused("evidence.scopes", "[relunch]"), HasSubstr("relaunch"));
  EXPECT_THAT(refused("limits", "[{max_overhead: 1.2}]"), HasSubstr("max_overhead_ratio"));
  EXPECT_THROW(load_acceptance_rules("no-such-rules"), Error);
}

TEST(Acceptance, VerdictsBecomeRecordsForExporters) {
  const Acceptance found = judge_acceptance(
      fleet(8, [](int n, NodeKind& kind) { kind.fast_ratio = n == 5 ? 1.5 : 1; }), rules());
  const std::vector<Record> records = acceptance_records(found);
  ASSERT_EQ(records.size(), 8U);
  EXPECT_EQ(records[5].case_id, "node:gpu05");
  EXPECT_EQ(records[5].verdict.reason_code, "slow_node");
  EXPECT_EQ(combined_exit_code(records), ExitCode::fail);
}

TEST(Acceptance, ANameThatSlurmCouldNotHaveHasNoDrainCommand) {
  NodeVerdict verdict;
  verdict.hardware = true;
  verdict.node = "gpu01; rm -rf /";
  EXPECT_TRUE(drain_command(verdict).empty());
  verdict.node = "gpu01";
  EXPECT_FALSE(drain_command(verdict).empty());
}

// --- cases of users

// acceptance-01: a default run of 8 bytes is a connectivity check.
TEST(Acceptance, Acceptance01ABandwidthIsNotJudgedOnEightBytes) {
  const AcceptanceRules limited =
      load_acceptance_rules("default", {{"bandwidth.min_bus_bytes_per_second", "470e9"}});
  const std::string eight =
      "#  size  count  type redop root  time algbw busbw #wrong\n"
      "#   (B)\n"
      "      8      2 float   sum   -1 12.90  0.00  0.00    N/A 12.80 0.00 0.00 N/A\n";
  const CollectiveVerdict small =
      judge_collective(parse_collective_table(eight, "ar.txt"), limited);
  EXPECT_TRUE(small.connected);
  EXPECT_FALSE(small.wide_enough.has_value());
  EXPECT_EQ(small.code, "");
  EXPECT_THAT(small.words, HasSubstr("connectivity PASS"));
  EXPECT_THAT(small.words, HasSubstr("bandwidth not measured (size below limit"));

  const std::string both = eight + "1073741824 268435456 float sum -1 4060 264.4 460.1 0\n";
  const CollectiveVerdict slow = judge_collective(parse_collective_table(both, "ar.txt"), limited);
  EXPECT_EQ(slow.code, "low_bandwidth");
  const std::string wide = eight + "1073741824 268435456 float sum -1 3960 271.4 475.0 0\n";
  EXPECT_EQ(judge_collective(parse_collective_table(wide, "ar.txt"), limited).wide_enough, true);
  const std::string wrong = eight + "1073741824 268435456 float sum -1 3960 271.4 475.0 12\n";
  EXPECT_EQ(judge_collective(parse_collective_table(wrong, "ar.txt"), limited).code,
            "wrong_results");
  EXPECT_EQ(judge_collective(parse_collective_table("# nothing\n", "ar.txt"), limited).code,
            "no_measurement");
  EXPECT_THROW(parse_collective_table("8 2 float sum -1 x 0 0 0\n", "ar.txt"), Error);

  AcceptanceContext context;
  context.collectives = {parse_collective_table(eight, "ar.txt")};
  const Acceptance found = judge_acceptance(fleet(4), limited, context);
  EXPECT_EQ(found.exit_code, ExitCode::pass);
  EXPECT_EQ(summary(found, "bandwidth").judged, 0);
  context.collectives = {parse_collective_table(both, "ar.txt")};
  EXPECT_EQ(judge_acceptance(fleet(4), limited, context).exit_code, ExitCode::fail);
}

CollectiveVerdict collective(const std::string& text) {
  static const AcceptanceRules kLimited =
      load_acceptance_rules("default", {{"bandwidth.min_bus_bytes_per_second", "470e9"},
                                        {"bandwidth.min_message_bytes", "1048576"}});
  return judge_collective(parse_collective_table(text, "ar.txt"), kLimited);
}

TEST(Collectives, TheInPlaceHalfCountsToo) {
  const std::string half = "16777216 2 float sum -1 12.9 400 480 0 ";
  EXPECT_EQ(collective(half + "12.9 400 480 0\n").code, "");
  EXPECT_EQ(collective(half + "12.9 400 480 N/A\n").code, "");
  const CollectiveVerdict wrong = collective(half + "12.9 400 480 3\n");
  EXPECT_EQ(wrong.code, "wrong_results");
  EXPECT_THAT(wrong.words, HasSubstr("16777216 bytes in place: 3 wrong elements"));
  EXPECT_EQ(collective(half + "0 400 480 0\n").code, "wrong_results") << "no time";
  EXPECT_EQ(collective(half + "12.9 400 100 0\n").code, "low_bandwidth");
}

TEST(Collectives, AFailureBeatsTheRows) {
  const std::string good = "16777216 2 float sum -1 12.9 400 480 0 12.9 400 480 0\n";
  EXPECT_EQ(collective(good + "# Out of bounds values : 0 OK\n").code, "");
  for (const char* line :
       {"# Out of bounds values : 2 FAILED", "gpu03: Test NCCL failure common.cu:958 'unhandled'",
        "gpu03: Test CUDA failure common.cu:12 'out of memory'"}) {
    const CollectiveVerdict failed = collective(good + line + "\n");
    EXPECT_EQ(failed.code, "wrong_results") << line;
    EXPECT_THAT(failed.words, HasSubstr(std::string("line 2: ") + line));
    EXPECT_FALSE(failed.connected);
    EXPECT_EQ(collective(line).code, "wrong_results") << "also without rows";
  }
}

TEST(Collectives, WhatIsNoNumberIsNamedWithItsLine) {
  for (const char* row :
       {"8 2 float sum -1 12.9 400 inf 0", "8 2 float sum -1 12.9 400 nan 0",
        "8 2 float sum -1 12.9 400 -1 0", "8 2 float sum -1 inf 400 1 0",
        "8 2 float sum -1 12.9 400 1 -2", "8 2 float sum -1 12.9 400 1 0 12.9 400 inf 0",
        "8 2 float sum -1 12.9 400 1 0 12.9 400 1 -1", "8 2 float sum -1 12.9 400 1 0 12.9"}) {
    try {
      collective(std::string("#\n") + row + "\n");
      ADD_FAILURE() << row;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::config);
      EXPECT_THAT(error.what(), HasSubstr("ar.txt:2: ")) << row;
    }
  }
}

// acceptance-02: right after a stress stage the machine is still busy.
TEST(Acceptance, Acceptance02AnIdleCheckWaitsUntilSettledOrGivesUp) {
  const auto last_answer = [](const std::vector<double>& readings) {
    IdleWait wait(load_acceptance_rules("default", {{"idle.timeout_seconds", "60"}}));
    double elapsed = 0;
    size_t taken = 0;
    auto answer = IdleWait::Answer::wait;
    for (const double reading : readings) {
      ++taken;
      answer = wait.take(reading, elapsed);
      if (answer != IdleWait::Answer::wait) break;
      elapsed += 5;
    }
    return std::pair(answer, taken);
  };
  EXPECT_EQ(last_answer({0.14, 0.11, 0.03, 0.01}), std::pair(IdleWait::Answer::settled, size_t{4}));
  EXPECT_EQ(last_answer(std::vector<double>(20, 0.14)),
            std::pair(IdleWait::Answer::gave_up, size_t{13}));
  AcceptanceContext context;
  context.notes = {"stages in their order: idle check, tiny.fp32"};
  context.not_idle = "other processes used 14 % of the cores after 60 s, limit 10 %";
  const Acceptance found = judge_acceptance(fleet(4), rules(), context);
  EXPECT_EQ(found.exit_code, ExitCode::inconclusive);
  EXPECT_EQ(found.findings.front().code, "not_idle");
  EXPECT_TRUE(std::ranges::none_of(found.nodes, &NodeVerdict::hardware));
  EXPECT_THAT(found.notes.front(), HasSubstr("stages in their order"));
}

// acceptance-03: a bad node must not pass.
TEST(Acceptance, Acceptance03AnOutlierAnErrorAndNothingTestedAreNoPass) {
  const std::vector<double> rates = {6510, 18870, 18955, 18990, 18920, 18845, 19010, 18930};
  std::vector<AcceptanceInput> inputs = fleet(8);
  for (size_t i = 0; i < rates.size(); ++i) {
    ArmResult& fast = inputs[i].record.arms.front();
    const double seconds = 1 / rates[i];
    fast.step_time_seconds = Estimate{seconds, seconds * 0.999, seconds * 1.001, 8};
    fast.blocks.clear();
  }
  const Acceptance slow = judge_acceptance(inputs, rules());
  EXPECT_EQ(slow.exit_code, ExitCode::fail);
  EXPECT_THAT(accused(slow), ::testing::ElementsAre("gpu00 slow_node"));
  EXPECT_NEAR(1 / *node(slow, "gpu00").fast_ratio, 0.34, 0.005);
  EXPECT_THAT(node(slow, "gpu00").words, HasSubstr("its bits are fine"));

  auto recorded = fleet(4);
  recorded[1].record.arms[2].failure_code = "infrastructure";
  recorded[1].record.arms[2].failure = "rank 3: an allocation failed";
  const Acceptance error = judge_acceptance(recorded, rules());
  EXPECT_EQ(error.exit_code, ExitCode::infrastructure);
  EXPECT_THAT(node(error, "gpu01").words, HasSubstr("an allocation failed"));

  auto nothing = fleet(4);
  for (ArmResult& arm : nothing[2].record.arms) arm.step_time_seconds.reset();
  const Acceptance untested = judge_acceptance(nothing, rules());
  EXPECT_EQ(untested.exit_code, ExitCode::infrastructure);
  EXPECT_EQ(node(untested, "gpu02").code, "no_measurement");
}

// acceptance-04: a good node fails because of its environment.
TEST(Acceptance, Acceptance04AnotherConfigurationIsNotBadHardware) {
  const auto differing = [](const std::string& name, const std::string& value) {
    auto inputs =
        fleet(8, [](int n, NodeKind& kind) { kind.fast_ratio = n == 3 ? 431.0 / 15 : 1; });
    for (AcceptanceInput& one : inputs)
      one.record.environment.variables["NCCL_TOPO_FILE"] = "/etc/nccl/topo.xml";
    inputs[3].record.environment.variables[name] = value;
    return judge_acceptance(inputs, rules());
  };
  for (const auto& [name, value] :
       {std::pair{"NCCL_TOPO_FILE", "/etc/nccl/old.xml"}, std::pair{"NCCL_PROTO", "Simple"}}) {
    const Acceptance found = differing(name, value);
    EXPECT_EQ(found.exit_code, ExitCode::infrastructure);
    EXPECT_THAT(accused(found), ::testing::ElementsAre("gpu03 configuration_differs"));
    const NodeVerdict& odd = node(found, "gpu03");
    EXPECT_FALSE(odd.hardware);
    EXPECT_TRUE(drain_command(odd).empty());
    EXPECT_THAT(odd.words, HasSubstr(std::string("configuration differs from the fleet: ") + name +
                                     " is " + value + " on gpu03"));
    EXPECT_THAT(odd.words, Not(HasSubstr("slow")));
  }
  // Set up alike, the same times are its own.
  const Acceptance same = differing("NCCL_TOPO_FILE", "/etc/nccl/topo.xml");
  EXPECT_THAT(accused(same), ::testing::ElementsAre("gpu03 slow_node"));
}

TEST(Acceptance, SettingsWithoutAMajorityBlameNoNode) {
  auto inputs = fleet(2);
  inputs[0].record.environment.kernel = "Linux 5.15";
  const Acceptance found = judge_acceptance(inputs, rules());
  EXPECT_EQ(found.exit_code, ExitCode::infrastructure);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_EQ(found.findings.front().node, "");
  EXPECT_THAT(found.findings.front().words,
              HasSubstr("the nodes differ in kernel: Linux 5.15 on gpu00, Linux 6.1 on gpu01"));
  EXPECT_TRUE(accused(found).empty());
}

TEST(Acceptance, ACaseOfAnotherContentIsAnotherConfiguration) {
  auto inputs = fleet(4);
  inputs[3].record.planned.seed = 5;
  EXPECT_THAT(accused(judge_acceptance(inputs, rules())),
              ::testing::ElementsAre("gpu03 configuration_differs"));
}

// acceptance-05 (a): collectives are healthy, one rank trains slowly. (b) is in tests/cli/accept_test.cpp.
TEST(Acceptance, Acceptance05ASlowRankFailsTheTrainingRowAndIsNamed) {
  const Acceptance found = judge_acceptance(fleet(4,
                                                  [](int n, NodeKind& kind) {
                                                    if (n != 2) return;
                                                    kind.slow_rank = 6;
                                                    kind.rank_ratio = 1.15;
                                                  }),
                                            rules());
  EXPECT_EQ(found.exit_code, ExitCode::fail);
  ASSERT_FALSE(found.findings.empty());
  EXPECT_EQ(found.findings.front().code, "slow_rank");
  EXPECT_EQ(found.findings.front().rank, 6);
  EXPECT_THAT(found.findings.front().words, HasSubstr("tiny.fp32.dp2.t1.b8x64 on gpu02: rank 6"));
  EXPECT_TRUE(node(found, "gpu02").hardware);
}

}  // namespace
}  // namespace dettax
