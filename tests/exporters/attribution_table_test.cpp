#include "exporters/attribution_table.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "results/run_folder.h"

namespace dettax {
namespace {

using testing::HasSubstr;
using testing::Not;

AttributedTime time_of(double fast, double deterministic) {
  const double delta = deterministic - fast;
  return {fast, deterministic, delta, Estimate{delta, delta - 2e-6, delta + 2e-6, 4}};
}

Attribution sample() {
  Attribution attribution;
  attribution.fast = {2, 5, 1.000e-3, 0, 40, 40};
  attribution.deterministic = {2, 4, 1.500e-3, 0.001, 44, 43};
  attribution.step = time_of(1.0e-3, 1.5e-3);
  attribution.mechanisms = {{Mechanism::memory_fill, time_of(0, 0.4e-3), 0, 60},
                            {Mechanism::compute, time_of(0.9e-3, 1.0985e-3), 20, 21},
                            {Mechanism::idle_host, time_of(0.1e-3, 0), 0, 0}};
  attribution.unmapped = time_of(0, 1.5e-6);
  AttributionRow fill;
  fill.path = "forward/layer0/empty";
  fill.mechanism = Mechanism::memory_fill;
  fill.time = time_of(0, 0.4e-3);
  fill.deterministic_busy_seconds = 0.39e-3;
  fill.deterministic_count = 60;
  fill.match = KeyMatch::deterministic_only;
  AttributionRow attention;
  attention.path = "backward/layer0/attention";
  attention.time = time_of(0.2e-3, 0.3e-3);
  attention.fast_busy_seconds = 0.2e-3;
  attention.deterministic_busy_seconds = 0.3e-3;
  attention.fast_count = 1;
  attention.deterministic_count = 2;
  attention.fast_work = "backward_atomic";
  attention.deterministic_work = "backward_ordered";
  attribution.rows = {fill, attention};
  attribution.distortion_seconds = 20e-6;
  attribution.notes = {"det.json: 43 of 44 launches left work on the device"};
  attribution.advice = {"turn it off"};
  return attribution;
}

std::string table(const Attribution& attribution, size_t keys = 15) {
  std::ostringstream out;
  write_attribution(out, attribution, {}, keys);
  return out.str();
}

TEST(AttributionTable, SaysWhereTheDifferenceIs) {
  const std::filesystem::path path =
      std::filesystem::path(DETTAX_SOURCE_DIR) / "tests/exporters/golden/attribution.txt";
  const std::string text = table(sample());
  if (std::getenv("DETTAX_APPROVE") != nullptr) return write_file_atomically(path, text);
  EXPECT_EQ(text, read_file(path))
      << "if the change is meant: DETTAX_APPROVE=1, then read the difference";
}

TEST(AttributionTable, SaysWhereThereIsNoInterval) {
  Attribution attribution = sample();
  attribution.step.delta.reset();
  EXPECT_THAT(table(attribution), HasSubstr("no interval: too few steps"));
  EXPECT_THAT(table(sample()), Not(HasSubstr("too few steps")));
}

TEST(AttributionTable, ShowsNoMoreKeysThanAskedFor) {
  EXPECT_THAT(table(sample(), 1), Not(HasSubstr("backward/layer0/attention  ")));
  EXPECT_THAT(table(sample(), 2), HasSubstr("backward/layer0/attention  "));
}

}  // namespace
}  // namespace dettax
