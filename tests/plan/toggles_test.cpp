#include "harness/plan/toggles.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/plan/suite.h"

namespace dettax {
namespace {

using testing::Contains;
using testing::Not;

std::vector<std::string> names(const std::vector<Toggle>& all) {
  std::vector<std::string> names;
  for (const Toggle& toggle : all) names.push_back(toggle.knob);
  return names;
}

Case dense_case(int ranks) {
  Case planned;
  planned.model = load_model("gpt-tiny");
  planned.layout.dp = planned.topology.ranks_per_node = ranks;
  return planned;
}

TEST(Toggles, TurnOneKnobEach) {
  const Mode fast = load_mode("fast"), mode = load_mode("deterministic");
  for (const Toggle& toggle : toggles(dense_case(2), fast, mode)) {
    const Knob knob = knob_named(toggle.knob);
    for (const KnobInfo& info : knob_table()) {
      const bool its_own = info.knob == knob;
      EXPECT_EQ(knob_value(toggle.alone.knobs, info.knob),
                knob_value((its_own ? mode : fast).knobs, info.knob));
      EXPECT_EQ(knob_value(toggle.without.knobs, info.knob),
                knob_value((its_own ? fast : mode).knobs, info.knob));
    }
    EXPECT_FALSE(toggle.without.claims_reproducible);
    EXPECT_NE(toggle.alone.hash, toggle.without.hash);
  }
}

TEST(Toggles, AreThoseThatTheCaseHasSomethingFor) {
  const Mode fast = load_mode("fast"), mode = load_mode("deterministic");
  const auto on_one = names(toggles(dense_case(1), fast, mode));
  EXPECT_THAT(on_one, Contains("gemm"));
  EXPECT_THAT(on_one, Not(Contains("moe")));
  EXPECT_THAT(on_one, Not(Contains("collectives")));
  EXPECT_THAT(names(toggles(dense_case(2), fast, mode)), Contains("collectives"));
  EXPECT_TRUE(toggles(dense_case(2), fast, fast).empty());
}

TEST(Toggles, LibrarySettingsAreOneOfThem) {
  const Mode fast = load_mode("fast");
  Mode mode = fast;
  mode.environment = {{"NCCL_ALGO", "Ring"}};
  const auto all = toggles(dense_case(1), fast, mode);
  ASSERT_EQ(names(all), std::vector<std::string>{"environment"});
  EXPECT_EQ(all[0].alone.environment, mode.environment);
  EXPECT_EQ(all[0].without.environment, fast.environment);
}

TEST(Toggles, AllOfThemMakeTheMode) {
  const Mode fast = load_mode("fast"), mode = load_mode("megatron-det");
  const auto all = names(toggles(dense_case(2), fast, mode));
  const Mode made = with_toggles(fast, mode, all);
  for (const KnobInfo& info : knob_table()) {
    if (!knob_acts(info.knob, dense_case(2))) continue;
    EXPECT_EQ(knob_value(made.knobs, info.knob), knob_value(mode.knobs, info.knob)) << info.name;
  }
  EXPECT_EQ(made.environment, mode.environment);
  EXPECT_NE(with_toggles(fast, mode, {"gemm"}).knobs, mode.knobs);
}

}  // namespace
}  // namespace dettax
