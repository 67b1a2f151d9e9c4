#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "results/attribution.h"

namespace dettax {
namespace {

TEST(AttributionJson, HoldsWhatTheAttributionHolds) {
  Attribution attribution;
  attribution.fast.steps = 4;
  attribution.step = {1e-3, 2e-3, 1e-3, Estimate{1e-3, 0.9e-3, 1.1e-3, 4}};
  AttributionRow row;
  row.path = "forward/\"odd\"";
  row.mechanism = Mechanism::communication_wait;
  row.match = KeyMatch::fast_only;
  row.time = {0.1, 0.3, 0.2, {}};
  attribution.rows = {row};
  attribution.mechanisms = {
      {Mechanism::idle_gap, {0, std::numeric_limits<double>::quiet_NaN(), 0, {}}, 0, 0}};
  const auto json = nlohmann::json::parse(to_json(attribution));
  EXPECT_EQ(json["fast"]["steps"], 4);
  EXPECT_EQ(json["step"]["delta_seconds"], 1e-3);
  EXPECT_EQ(json["step"]["delta_low_seconds"], 0.9e-3);
  EXPECT_EQ(json["rows"][0]["path"], "forward/\"odd\"");
  EXPECT_EQ(json["rows"][0]["mechanism"], "exposed_comm.wait");
  EXPECT_EQ(json["rows"][0]["match"], "fast_only");
  EXPECT_EQ(json["rows"][0]["delta_seconds"], 0.2);
  EXPECT_TRUE(json["rows"][0]["delta_low_seconds"].is_null());
  EXPECT_TRUE(json["rows"][0]["ordinal"].is_null());
  EXPECT_TRUE(json["mechanisms"][0]["deterministic_seconds"].is_null());
  EXPECT_TRUE(json["profiling_distortion_seconds"].is_null());
}

}  // namespace
}  // namespace dettax
