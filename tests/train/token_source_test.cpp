#include "harness/train/token_source.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "small_cases.h"

namespace dettax {
namespace {

std::vector<int32_t> drawn(const TokenSource& source, uint64_t seed, int64_t step, int64_t sample) {
  std::vector<int32_t> tokens(64);
  source.sample(seed, step, sample, tokens);
  return tokens;
}

TEST(ZipfTokens, DependOnSeedStepAndSampleAlone) {
  const auto source = make_token_source(testing_support::small_case(testing_support::small_gpt()));
  const auto tokens = drawn(*source, 1, 2, 3);
  EXPECT_EQ(drawn(*source, 1, 2, 3), tokens);
  EXPECT_NE(drawn(*source, 2, 2, 3), tokens);
  EXPECT_NE(drawn(*source, 1, 3, 3), tokens);
  EXPECT_NE(drawn(*source, 1, 2, 4), tokens);
}

TEST(ZipfTokens, FollowTheLaw) {
  Case planned = testing_support::small_case(testing_support::small_gpt());
  const auto source = make_token_source(planned);
  std::vector<double> count(static_cast<size_t>(planned.model.vocabulary));
  std::vector<int32_t> tokens(200000);
  source->sample(7, 0, 0, tokens);
  for (const int32_t token : tokens) count.at(static_cast<size_t>(token)) += 1;
  double sum = 0;
  for (size_t id = 0; id < count.size(); ++id) sum += std::pow(static_cast<double>(id) + 3.7, -1.1);
  for (const size_t id : {0U, 1U, 10U, 89U}) {
    const double expected =
        static_cast<double>(tokens.size()) * std::pow(static_cast<double>(id) + 3.7, -1.1) / sum;
    EXPECT_NEAR(count[id], expected, 5 * std::sqrt(expected)) << id;
  }
}

}  // namespace
}  // namespace dettax
