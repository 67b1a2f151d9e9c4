#include "harness/base/exit_code.h"

#include <vector>

#include <gtest/gtest.h>

namespace dettax {
namespace {

using enum ExitCode;

ExitCode of(std::vector<ExitCode> codes) { return combine(codes); }

TEST(ExitCodes, AreTheNumbersOfTheConventions) {
  std::vector<int> numbers;
  for (const ExitCodeInfo& info : exit_code_table()) numbers.push_back(static_cast<int>(info.code));
  EXPECT_EQ(numbers, (std::vector<int>{0, 1, 2, 3, 4, 5, 70, 77, 124}));
  EXPECT_EQ(static_cast<int>(exit_code_of_signal(15)), 143);
}

TEST(ExitCodes, FollowFromTheKindOfError) {
  EXPECT_EQ(exit_code_of(ErrorKind::usage), usage);
  EXPECT_EQ(exit_code_of(ErrorKind::config), usage);
  EXPECT_EQ(exit_code_of(ErrorKind::infrastructure), infrastructure);
  EXPECT_EQ(exit_code_of(ErrorKind::unsupported), skipped);
  EXPECT_EQ(exit_code_of(ErrorKind::numeric), fail);
  EXPECT_EQ(exit_code_of(ErrorKind::timeout), timeout);
  EXPECT_EQ(exit_code_of(ErrorKind::internal), internal);
}

TEST(ExitCodes, TheWorstOfSeveralCounts) {
  const std::vector<ExitCode> order = {not_bit_exact, infrastructure, fail, inconclusive, pass};
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t j = i; j < order.size(); ++j) {
      EXPECT_EQ(of({order[i], order[j]}), order[i]);
      EXPECT_EQ(of({order[j], order[i]}), order[i]);
    }
  }
  EXPECT_EQ(of({pass, not_bit_exact, exit_code_of_signal(2)}), exit_code_of_signal(2));
  EXPECT_EQ(of({pass, internal}), internal);
}

TEST(ExitCodes, SkippedOnlyIfEverythingWas) {
  EXPECT_EQ(of({skipped, skipped}), skipped);
  EXPECT_EQ(of({skipped, pass}), pass);
  EXPECT_EQ(of({}), skipped) << "nothing at all is no pass";
}

}  // namespace
}  // namespace dettax
