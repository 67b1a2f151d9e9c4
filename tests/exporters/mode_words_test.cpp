// What a table says of modes: cases mode-01, mode-03, overhead-01.
#include "exporters/mode_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dettax {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

ArmResult arm(const std::string& name) {
  ArmResult made;
  made.arm = name;
  return made;
}

TEST(Mode01, WhatWasSetForTheChildIsSaidWithWhatStoodThere) {
  Record record;
  record.arms = {arm("fast"), arm("det")};
  record.arms[1].environment = {{"CUBLAS_WORKSPACE_CONFIG", ":4096:8"}, {"NCCL_ALGO", "Ring"}};
  record.arms[1].environment_before = {{"NCCL_ALGO", "Tree"}};
  EXPECT_THAT(environment_words(record),
              ElementsAre("set for the processes of det: CUBLAS_WORKSPACE_CONFIG=:4096:8 (was not "
                          "set), NCCL_ALGO=Ring (was Tree)"));
}

TEST(Mode03, AnArmThatBrokeShowsWhatReplacedWhat) {
  Record record;
  record.arms = {arm("fast"), arm("det")};
  record.arms[1].changed = {{"attention", "arrival", "ordered", {"backward/attention"}},
                            {"loss", "arrival", "ordered", {"loss_sum", "reduce/loss"}}};
  EXPECT_THAT(changed_variant_words(record), IsEmpty());  // it ran: nothing to look for
  for (const char* machine : {"infrastructure", "rank_crashed", "hang"}) {
    record.arms[1].failure_code = machine;
    EXPECT_THAT(changed_variant_words(record), IsEmpty()) << machine;
  }
  record.arms[1].failure_code = "non_finite";
  EXPECT_THAT(changed_variant_words(record),
              ElementsAre("det runs other variants than fast: attention arrival -> ordered "
                          "(backward/attention); loss arrival -> ordered (loss_sum, reduce/loss)"));
}

Record filled() {
  Record record;
  record.arms = {arm("fast"), arm("det"), arm("det+memory_fill.off")};
  record.arms[1].fills_per_step = {2600, 3 << 20, 0.0169};
  record.contrasts = {{"det+memory_fill.off",
                       "det",
                       "memory_fill",
                       "off",
                       "on",
                       {0.927, 0.92, 0.934, 8},
                       {-0.0168, -0.0184, -0.0152, 8},
                       "equal"}};
  return record;
}

TEST(Overhead01, TheRowSaysCountBytesSecondsAndThatNoOrderIsTouched) {
  const auto words = contrast_words(filled());
  ASSERT_THAT(words, SizeIs(1));
  EXPECT_THAT(words[0], HasSubstr("memory_fill on -> off alone: -7.3 % (-8.0 % to -6.6 %, n = 8), "
                                  "-16.8 ms a step (-18.4 ms to -15.2 ms), bits equal, no order of "
                                  "sums touched"));
  EXPECT_THAT(words[0], HasSubstr("det fills 2600 buffers a step, 3.00 MiB, in 16.9 ms, which is "
                                  "within that interval"));
}

TEST(Overhead01, FillsThatDoNotExplainTheRowAreSaidToLieOutside) {
  Record record = filled();
  record.arms[1].fills_per_step.seconds = 0.005;
  EXPECT_THAT(contrast_words(record)[0], HasSubstr("in 5.00 ms, which is outside that interval"));
}

TEST(Overhead01, AnOrderingKnobIsNotSaidToTouchNoOrder) {
  Record record = filled();
  record.contrasts[0].knob = "attention";
  EXPECT_THAT(contrast_words(record)[0], testing::Not(HasSubstr("no order of sums touched")));
}

}  // namespace
}  // namespace dettax
