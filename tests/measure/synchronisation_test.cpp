// Case noise-03: step times read before the device had finished.
#include "harness/measure/synchronisation.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/measure/measure.h"
#include "harness/measure/noise.h"

namespace dettax {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<double> ms(std::vector<double> values) {
  for (double& value : values) value *= 1e-3;
  return values;
}

Block block(std::vector<double> host_ms, std::vector<double> device_ms) {
  Block made;
  made.step_time_seconds = {ms(std::move(host_ms))};
  if (!device_ms.empty()) made.device_step_time_seconds = {ms(std::move(device_ms))};
  return made;
}

const std::vector<double> kHost = {4, 4, 4, 88, 25, 25};
const std::vector<double> kDevice = {25, 25, 25, 25, 25, 25};

TEST(Noise03, StepsThatEndBeforeTheirDeviceWorkAreFlagged) {
  const Synchronisation found = synchronisation(block(kHost, kDevice));
  EXPECT_EQ(found.steps, 6);
  EXPECT_EQ(found.unsynchronised, 3);
  EXPECT_FALSE(found.trusted());
}

TEST(Noise03, TheWholeIntervalCountsAndNoStepIsFastOrASpike) {
  const std::vector<Block> blocks = {block(kHost, kDevice)};
  EXPECT_NEAR(block_seconds(blocks[0]), 0.150 / 6, 1e-12);
  EXPECT_NEAR(step_time(blocks, 0.95)->value, 0.150 / 6, 1e-12);
  EXPECT_THAT(outlying_steps(blocks), IsEmpty());
  const auto warnings = noise_warnings("deterministic", blocks, blocks);
  EXPECT_THAT(warnings, Contains(HasSubstr("not synchronised")));
  EXPECT_THAT(warnings, Contains(HasSubstr("3 of 6 steps")));
  EXPECT_THAT(warnings, Not(Contains(HasSubstr("outlier"))));
}

TEST(Noise03, ALastStepThatIsStillRunningIsNotLost) {
  EXPECT_NEAR(mean_step_seconds(block({4, 4, 4}, {25, 25, 25})), 0.025, 1e-12);
}

TEST(Noise03, ASpikeThatTheDeviceSawTooIsASpike) {  // the check can fail
  const std::vector<double> spike = {25, 25, 25, 88, 25, 25};
  for (const Block& honest : {block(spike, spike), block(spike, {})}) {
    EXPECT_TRUE(synchronisation(honest).trusted());
    EXPECT_NEAR(block_seconds(honest), 0.025, 1e-12);  // the median
    EXPECT_THAT(outlying_steps({honest}), Not(IsEmpty()));
    EXPECT_THAT(noise_warnings("deterministic", {honest}, {honest}),
                Not(Contains(HasSubstr("not synchronised"))));
  }
}

TEST(Noise03, AnEmptyBlockHasNoMean) { EXPECT_TRUE(std::isnan(mean_step_seconds(Block{}))); }

}  // namespace
}  // namespace dettax
