#include "harness/launch/guards.h"

#include <gtest/gtest.h>

namespace dettax {
namespace {

MachineSample sample(double time, double busy, double steal, double pressure) {
  MachineSample out;
  out.time_seconds = time;
  out.busy_core_seconds = busy;
  out.steal_core_seconds = steal;
  out.pressure_seconds = pressure;
  out.frequency_hz = 2e9;
  out.cores = 4;
  return out;
}

TEST(Guards, OtherLoadIsWhatTheGroupDidNotUseItself) {
  Block block;
  fill_guards(block, sample(10, 100, 5, 1), sample(12, 106, 5.8, 1.5), 4.0);
  EXPECT_DOUBLE_EQ(block.other_load_ratio, 2.0 / 8);
  EXPECT_NEAR(block.steal_ratio, 0.1, 1e-12);
  EXPECT_DOUBLE_EQ(block.pressure_ratio, 0.25);
  EXPECT_DOUBLE_EQ(block.frequency_hz, 2e9);
}

TEST(Guards, CoarseCountersNeverGiveANegativeShare) {
  Block block;
  fill_guards(block, sample(10, 100, 5, 1), sample(10.1, 100, 5, 1), 0.2);
  EXPECT_EQ(block.other_load_ratio, 0);
}

TEST(Guards, ThisMachineTellsItsLoad) {
  const MachineSample now = sample_machine();
  EXPECT_GT(now.busy_core_seconds, 0);
  EXPECT_GE(now.cores, 1);
}

}  // namespace
}  // namespace dettax
