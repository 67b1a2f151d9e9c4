// Cases overhead-02 and overhead-03: a gate that fires.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/robust.h"
#include "harness/measure/noise.h"
#include "harness/measure/verdict.h"
#include "harness/measure/warmup.h"
#include "results/reason.h"
#include "tests/measure/simulated_arm.h"

namespace dettax {
namespace {

using testing::HasSubstr;

constexpr double kLimit = 1.25;

Suite suite_with_limit(double limit) {
  Suite suite;
  Mode det;
  det.name = "deterministic";
  det.claims_reproducible = true;
  suite.modes = {det};
  suite.thresholds.max_overhead_ratio = limit;
  return suite;
}

// A record whose evidence is in order, so that only the numbers decide.
Record record_of(const std::vector<Block>& fast, const std::vector<Block>& det,
                 const std::vector<Block>& control = {}) {
  Record record;
  ArmResult a, b;
  a.arm = "fast";
  a.blocks = fast;
  b.arm = "deterministic";
  b.claims_reproducible = true;
  b.blocks = det;
  record.arms = {a, b};
  if (const auto tax = estimate_tax("deterministic", det, fast, control, 0.95))
    record.taxes = {*tax};
  ArmEvidence evidence;
  evidence.arm = "deterministic";
  evidence.reproducible = true;
  record.evidence.arms = {evidence};
  record.evidence.fast_differed = true;
  return record;
}

// Iterations of a log after its warm-up, in blocks of three, paired in time.
std::vector<Block> blocks_of(const std::vector<double>& milliseconds, size_t warmup) {
  std::vector<Block> blocks;
  for (size_t i = warmup; i + 3 <= milliseconds.size(); i += 3) {
    Block block;
    block.round = static_cast<int>(blocks.size());
    block.start_seconds = static_cast<double>(i);
    block.step_time_seconds = {
        {milliseconds[i] / 1e3, milliseconds[i + 1] / 1e3, milliseconds[i + 2] / 1e3}};
    blocks.push_back(block);
  }
  return blocks;
}

const std::vector<double> kFast = {410.0, 58.1, 57.9, 58.0, 54.0, 58.2, 57.8, 58.1, 58.0, 57.9};
const std::vector<double> kDet = {455.0, 66.0, 66.3, 65.8, 70.3, 66.1, 66.0, 65.9, 66.2, 66.1};

TEST(Overhead02, ASingleSlowIterationDoesNotFailTheGate) {
  ASSERT_EQ(warmup_length(kFast), 1U);
  ASSERT_EQ(warmup_length(kDet), 1U);
  const std::vector<Block> fast = blocks_of(kFast, 1), det = blocks_of(kDet, 1);
  Record record = record_of(fast, det);
  judge(record, suite_with_limit(kLimit));
  EXPECT_EQ(record.verdict.status, Status::pass) << record.verdict.reason;
  EXPECT_NEAR(record.taxes[0].overhead_ratio.value, 1.14, 0.005);
  const std::vector<OutlyingStep> in_fast = outlying_steps(fast), in_det = outlying_steps(det);
  ASSERT_EQ(in_fast.size(), 1U);
  ASSERT_EQ(in_det.size(), 1U);
  EXPECT_EQ(in_fast[0].round, 1);
  EXPECT_EQ(in_fast[0].step, 0);
  EXPECT_NEAR(in_det[0].seconds / in_fast[0].seconds, 1.30, 0.005)
      << "the 1.30x that fired the gate";
  EXPECT_THAT(record.taxes[0].warnings,
              testing::Contains(HasSubstr("1 of 9 steps of deterministic are outliers")));
}

TEST(Overhead02, AllIterationsOverTheLimitFailIt) {
  std::vector<double> slow(10, 75.0);
  slow[0] = 455;
  Record record = record_of(blocks_of(kFast, 1), blocks_of(slow, 1));
  judge(record, suite_with_limit(kLimit));
  EXPECT_EQ(record.verdict.reason_code, "over_limit") << record.verdict.reason;
  EXPECT_EQ(record.verdict.exit_code, 1);
}

struct Gate {
  int pass = 0, fail = 0, inconclusive = 0, one_iteration_fails = 0;
};

// 8 steps an arm, each slowed by 10 to 30 % now and then.
Gate gate(double truth, int rounds, int seeds) {
  Gate out;
  MeasureSettings settings;
  settings.rounds_min = rounds;
  settings.rounds_max = rounds;
  settings.steps_per_block = 1;
  for (int seed = 0; seed < seeds; ++seed) {
    Dice dice(static_cast<uint64_t>(seed) + 1);
    SimulatedTime time;
    SimulatedArm fast("fast", 0.058, spikes(4, 0.01), dice, time),
        det("deterministic", 0.058 * truth, spikes(4, 0.01), dice, time);
    const Measurement m =
        measure({&fast, &det}, settings, static_cast<uint64_t>(seed), time.clock(), {});
    Record record = record_of(m.blocks[0], m.blocks[1]);
    judge(record, suite_with_limit(kLimit));
    out.pass += record.verdict.status == Status::pass;
    out.fail += record.verdict.status == Status::fail;
    out.inconclusive += record.verdict.status == Status::inconclusive;
    const double one = block_seconds(m.blocks[1][4]) / block_seconds(m.blocks[0][4]);
    out.one_iteration_fails += (one > kLimit) != (truth > kLimit);
    if (record.verdict.status == Status::inconclusive) {
      EXPECT_EQ(record.verdict.exit_code, 3);
    }
    EXPECT_THAT(record.verdict.reason, HasSubstr("n = " + std::to_string(rounds) + " rounds"));
  }
  std::printf(
      "truth %.2f, %d rounds: pass %d, fail %d, inconclusive %d; one iteration alone is wrong in "
      "%.1f %%\n",
      truth, rounds, out.pass, out.fail, out.inconclusive, 100.0 * out.one_iteration_fails / seeds);
  return out;
}

TEST(Overhead03, AtMostFivePercentOfVerdictsAreWrong) {
  constexpr int kSeeds = 200;
  const Gate under = gate(1.12, 4, kSeeds), over = gate(1.30, 4, kSeeds);
  EXPECT_LE(under.fail, kSeeds / 20);
  EXPECT_LE(over.pass, kSeeds / 20);
  EXPECT_GT(under.pass, kSeeds / 4) << "a gate that never decides would pass this test too";
  EXPECT_GT(under.one_iteration_fails + over.one_iteration_fails, kSeeds / 20)
      << "one iteration is often wrong, that is the point";
}

TEST(Overhead03, WithThreePairsItSaysSoAndClaimsLess) {
  constexpr int kSeeds = 200;
  const Gate under = gate(1.12, 3, kSeeds), over = gate(1.30, 3, kSeeds);
  EXPECT_LE(under.fail, kSeeds / 20);
  EXPECT_LE(over.pass, kSeeds / 20);
  EXPECT_LE(under.pass, gate(1.12, 8, kSeeds).pass);
}

}  // namespace
}  // namespace dettax
