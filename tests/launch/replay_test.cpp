#include "harness/launch/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/support.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;
using testing::refusal_of;

class ReplaySpec : public ::testing::Test {
 protected:
  ReplaySpec()
      : suite_(testing::tiny_suite(folder_.path(), "  - {threads: 2}\n", "[invariant]")),
        case_id_(suite_.cases.at(0).id()) {}
  ArmSpec of(const std::string& arm, const std::string& run) {
    return replay_spec(suite_, ledger_place(case_id_ + "/" + arm + "." + run + ".ledger"));
  }

  testing::TemporaryFolder folder_;
  const Suite suite_;
  const std::string case_id_;
};

TEST_F(ReplaySpec, IsTheArmOnItsCase) {
  EXPECT_EQ(of("control", "run_2").mode.name, "fast");
  const ArmSpec spec = of("invariant", "relaunch");
  EXPECT_EQ(spec.arm, "invariant");
  EXPECT_EQ(spec.planned.id(), case_id_);
  EXPECT_EQ(spec.placement, RankPlacement::planned);
}

TEST_F(ReplaySpec, ChangesTheCaseAsTheRunDid) {
  EXPECT_EQ(of("invariant", "other_allocation").placement, RankPlacement::swapped);
  EXPECT_EQ(of("invariant", "threads_3").planned.topology.threads_per_rank, 3);
  const ArmSpec other = of("invariant", "dp_2__micro-batch_1");
  EXPECT_EQ(other.planned.batch.micro, 1);
  EXPECT_EQ(other.planned.layout.dp, 2);
}

TEST_F(ReplaySpec, SaysWhatTheSuiteDoesNotHave) {
  EXPECT_THAT(refusal_of([&] { of("megatron-det", "run_1"); }), HasSubstr("no arm megatron-det"));
  EXPECT_THAT(refusal_of([&] { of("fast", "threads_7"); }), HasSubstr("a run named threads_7"));
  EXPECT_THAT(refusal_of([&] { replay_spec(suite_, ledger_place("other/fast.run_1.ledger")); }),
              HasSubstr("no case other"));
}

}  // namespace
}  // namespace dettax
