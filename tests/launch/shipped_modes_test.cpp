// Every mode that is shipped keeps what it claims: needs the dettax program.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/base/text.h"
#include "tests/launch/case_run.h"

namespace dettax {
namespace {

using ShippedModes = testing::CaseRun;

// Scopes that a mode claims to keep its bits over.
std::vector<std::string> claimed_scopes(const Mode& mode) {
  std::vector<std::string> scopes = {"same_process"};
  if (mode.claims_invariant) scopes.insert(scopes.end(), {"other_threads", "other_ranks"});
  return scopes;
}

void expect_kept(const Mode& mode, const ArmEvidence& found) {
  EXPECT_TRUE(found.reproducible) << mode.name;
  for (const std::string& claimed : claimed_scopes(mode)) {
    const ScopeEvidence* scope = nullptr;
    for (const ScopeEvidence& one : found.scopes) {
      if (one.scope == claimed) scope = &one;
    }
    ASSERT_NE(scope, nullptr) << mode.name << ' ' << claimed;
    EXPECT_TRUE(scope->tested && scope->equal)
        << mode.name << ' ' << claimed << ": " << scope->first_difference;
  }
}

void expect_all_kept(const Record& record) {
  int claiming = 0;
  for (const std::string& name : list_modes()) {
    const Mode mode = load_mode(name);
    if (!mode.claims_reproducible) continue;
    ++claiming;
    const ArmEvidence* found = find_evidence(record, name);
    ASSERT_NE(found, nullptr) << name;
    expect_kept(mode, *found);
  }
  EXPECT_GE(claiming, 5);
}

std::string claiming_modes() {
  std::vector<std::string> names;
  for (const std::string& name : list_modes()) {
    if (load_mode(name).claims_reproducible) names.push_back(name);
  }
  return "[" + join(names, ", ") + "]";
}

constexpr const char* kOneLayer =
    "model: {base: gpt-tiny, layers: 1}, batch: {micro: 2, global: 4, sequence_length: 32}";

TEST_F(ShippedModes, KeepWhatTheyClaimOnTwoThreads) {
  expect_all_kept(run(fmt::format("{{{}, layout: dp1, threads: 2}}", kOneLayer), claiming_modes()));
}

TEST_F(ShippedModes, KeepWhatTheyClaimOnTwoRanks) {
  expect_all_kept(run(fmt::format("{{{}, layout: dp2, threads: 1}}", kOneLayer), claiming_modes()));
}

TEST_F(ShippedModes, AClaimThatIsNotKeptIsSeen) {
  const Record record = run(fmt::format("{{{}, layout: dp2, threads: 1}}", kOneLayer),
                            "[{base: deterministic, claims_invariant: true, name: claims_more}]");
  EXPECT_EQ(record.verdict.exit_code, 5);
  EXPECT_NE(record.verdict.reason.find("to invariant"), std::string::npos) << record.verdict.reason;
}

}  // namespace
}  // namespace dettax
