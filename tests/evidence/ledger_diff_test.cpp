#include "harness/evidence/ledger_diff.h"

#include <algorithm>
#include <limits>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/evidence/golden.h"
#include "tests/evidence/ledgers.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

LedgerDiff diff(const Ledger& a, const Ledger& b, const CompareOptions& options = {}) {
  return diff_ledgers(*view_ledger(a), "a", *view_ledger(b), "b", options);
}

std::string text(const LedgerDiff& one, bool in_short = false) {
  std::ostringstream out;
  write_diff(out, one, in_short);
  return out.str();
}

Ledger in_environment(const std::string& name, const std::string& value) {
  Ledger ledger = sample_ledger();
  ledger.environment = {{"compiler", "GNU 12.2.0"}, {"git_commit", "1"}, {"libc", "2.36"}};
  ledger.environment[name] = value;
  return ledger;
}

Ledger with_suite(Ledger ledger) {
  ledger.suite = "cases: []";
  return ledger;
}

Ledger with_changed(const std::string& path, const std::string& tensor, int64_t step = 1,
                    Ledger ledger = sample_ledger()) {
  for (size_t rank = 0; rank < 2; ++rank) entry(ledger, rank, step, path, tensor).value = of(99);
  return ledger;
}

TEST(LedgerDiff, EqualRunsPass) {
  const LedgerDiff same = diff(sample_ledger(), sample_ledger());
  EXPECT_EQ(same.exit_code(), ExitCode::pass);
  EXPECT_THAT(text(same),
              HasSubstr("equal: 52 fingerprints; in both, ranks that are copies agree"));
  EXPECT_EQ(text(same, true), "equal      b: 52 fingerprints\n");
}

TEST(LedgerDiff, FoldsWhatIsDownstreamIntoOneLine) {
  Ledger other = with_changed("reduce/gradients", "weight.grad");
  for (size_t rank = 0; rank < 2; ++rank) {
    for (int64_t step = 1; step < 3; ++step)
      entry(other, rank, step, "state", "weight").value = of(98);
  }
  const LedgerDiff found = diff(sample_ledger(), other);
  EXPECT_EQ(found.exit_code(), ExitCode::not_bit_exact);
  EXPECT_EQ(found.comparison.steps_differing, 2);
  const std::string words = text(found);
  EXPECT_THAT(words,
              HasSubstr("different: step 1, all 2 ranks, reduce/gradients: weight.grad differs"));
  EXPECT_THAT(words, HasSubstr("(5 later entries differ downstream)"));
  EXPECT_THAT(words, HasSubstr("class: collective order\nwhat to do: "));
  EXPECT_THAT(words, HasSubstr("NCCL_ALGO=Ring"));
  EXPECT_EQ(std::ranges::count(words, '\n'), 7) << words;
}

// run-03: all ranks at once, gradients before it equal.
TEST(Case, Run03ACollectiveOfAnotherOrderPassesBetweenRanksAndFailsBetweenRuns) {
  const LedgerDiff found =
      diff(sample_ledger(), with_changed("reduce/gradients", "weight.grad", 0));
  EXPECT_TRUE(found.a.agreement.equal && found.b.agreement.equal);
  EXPECT_EQ(found.comparison.first->step, 0);
  EXPECT_EQ(found.comparison.first_ranks, 2);
  EXPECT_TRUE(found.comparison.inputs_agreed);
  EXPECT_EQ(found.cause.name, "collective order");
  EXPECT_THAT(found.cause.advice, HasSubstr("NCCL_ALGO"));
}

// nan-02: at another step in each run.
TEST(Case, Nan02TheFirstDivergenceOfTwoRunsIsTheEarlierNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Ledger early = sample_ledger(), late = sample_ledger();
  entry(early, 1, 1, "backward/layer1/attention", "dqkv").value = of(nan);
  entry(late, 0, 2, "backward/layer0/attention", "dqkv").value = of(nan);
  for (const LedgerDiff& found : {diff(early, late), diff(late, early)}) {
    EXPECT_EQ(found.comparison.first->step, 1);
    EXPECT_EQ(found.comparison.first_rank, 1);
    EXPECT_EQ(found.comparison.first->path, "backward/layer1/attention");
    EXPECT_EQ(found.comparison.differing, 2);
  }
}

// layout-01
TEST(Case, Layout01AnotherVocabularyIsAnotherModelAndNoDivergence) {
  Ledger a = sample_ledger(), b = with_changed("forward/layer0/attention", "out", 0);
  a.model = {{"vocabulary", 97}, {"width", 64}};
  b.model = {{"vocabulary", 98}, {"width", 64}};
  const LedgerDiff found = diff(a, b);
  EXPECT_EQ(found.exit_code(), ExitCode::infrastructure);
  EXPECT_THAT(text(found), HasSubstr("not compared: shape differs, the models are not the same: "
                                     "vocabulary: 97 against 98"));
  EXPECT_THAT(text(found), Not(HasSubstr("different: ")));
}

// layout-02 (a)
TEST(Case, Layout02OtherInitialWeightsAreNamedSo) {
  const LedgerDiff found = diff(sample_ledger(), with_changed("state", "weight", -1));
  EXPECT_EQ(found.comparison.first->step, -1);
  EXPECT_EQ(found.cause.name, "initial weights");
  EXPECT_THAT(found.cause.advice, HasSubstr("load one seed checkpoint"));
}

// layout-02 (b)
TEST(Case, Layout02RanksOfOtherWeightsFailBeforeTheFirstForwardPass) {
  Ledger other = sample_ledger();
  entry(other, 1, -1, "state", "weight").value = of(99);
  const LedgerDiff found = diff(other, other);
  EXPECT_TRUE(found.comparison.equal);
  EXPECT_EQ(found.exit_code(), ExitCode::not_bit_exact);
  EXPECT_THAT(text(found), HasSubstr("ranks of A disagree: step -1, state: weight of rank 1"));
}

TEST(LedgerDiff, NamesAnotherRandomPosition) {
  EXPECT_EQ(diff(sample_ledger(), with_changed("state", "random.seed", -1)).cause.name,
            "RNG position");
}

TEST(LedgerDiff, SaysAnotherEnvironmentBeforeBits) {
  const Ledger other = in_environment("compiler", "Clang 19.1.0");
  const LedgerDiff refused = diff(in_environment("libc", "2.36"), other);
  EXPECT_EQ(refused.exit_code(), ExitCode::infrastructure);
  EXPECT_THAT(text(refused),
              HasSubstr("not compared: different environment, not comparable bitwise: "
                        "compiler: GNU 12.2.0 against Clang 19.1.0"));
  // Another commit is what such comparisons are made for.
  const LedgerDiff commit = diff(in_environment("libc", "2.36"), in_environment("git_commit", "2"));
  EXPECT_EQ(commit.exit_code(), ExitCode::pass);
  EXPECT_THAT(text(commit), HasSubstr("also other: git_commit: 1 against 2"));
}

TEST(LedgerDiff, ForcedItNamesTheEnvironmentAndWhereItShows) {
  CompareOptions options;
  options.force = true;
  const Ledger other =
      with_changed("forward/layer1/attention", "out", 1, in_environment("simd_target", "AVX2"));
  const LedgerDiff found = diff(in_environment("simd_target", "AVX3"), other, options);
  EXPECT_EQ(found.cause.name, "environment");
  EXPECT_THAT(found.cause.advice, HasSubstr("simd_target: AVX3 against AVX2"));
  EXPECT_THAT(text(found), HasSubstr("forward/layer1/attention: out differs"));
}

TEST(LedgerDiff, AModeThatPromisesNothingBreaksNoPromise) {
  LedgerDiff found = diff(sample_ledger(), with_changed("reduce/gradients", "weight.grad"));
  found.promised = false;
  EXPECT_EQ(found.exit_code(), ExitCode::pass);
  EXPECT_THAT(text(found, true), StartsWith("no promise b: step 1, all 2 ranks, reduce/gradients"));
}

TEST(LedgerDiff, AsJsonSaysTheSame) {
  const LedgerDiff found = diff(sample_ledger(), with_changed("reduce/gradients", "weight.grad"));
  const auto json = nlohmann::json::parse(diff_json({&found, 1}, found.exit_code()));
  EXPECT_EQ(json["exit_code"], 5);
  const auto& one = json["diffs"][0];
  EXPECT_EQ(one["first_difference"]["step"], 1);
  EXPECT_EQ(one["first_difference"]["tensor"], "weight.grad");
  EXPECT_EQ(one["cause"], "collective order");
  EXPECT_EQ(one["a"]["rank_agreement"]["equal"], true);
}

TEST(LedgerDiff, FilesGiveWhatMemoryGives) {
  Ledger other = with_changed("forward/layer1/attention", "out");
  std::stringstream a, b;
  write_ledger(a, sample_ledger());
  write_ledger(b, other);
  const LedgerComparison from_files = compare_ledgers(*open_ledger(a, "a"), *open_ledger(b, "b"));
  const LedgerComparison from_memory = compare_ledgers(sample_ledger(), other);
  EXPECT_EQ(from_files.description, from_memory.description);
  EXPECT_EQ(from_files.compared, from_memory.compared);
  EXPECT_EQ(from_files.differing, 2);
}

// --- golden runs

Ledger golden_ledger() {
  Ledger ledger = in_environment("libc", "2.36");
  ledger.suite = "cases: []";
  return ledger;
}

GoldenVerdict judge(const Ledger& golden, const Ledger& fresh) {
  return judge_golden(*view_ledger(golden), "control.ledger", *view_ledger(fresh));
}

TEST(Golden, EqualBitsPassAlsoInADriftedEnvironment) {
  EXPECT_EQ(judge(golden_ledger(), golden_ledger()).code, ExitCode::pass);
  const GoldenVerdict drifted = judge(golden_ledger(), in_environment("libc", "2.41"));
  EXPECT_EQ(drifted.code, ExitCode::pass);
  EXPECT_THAT(drifted.words, HasSubstr("the environment drifted and the bits did not: libc"));
}

TEST(Golden, OtherBitsInTheSameEnvironmentAreANumericChange) {
  const GoldenVerdict verdict =
      judge(golden_ledger(),
            with_changed("forward/layer1/attention", "out", 1, in_environment("git_commit", "2")));
  EXPECT_EQ(verdict.code, ExitCode::not_bit_exact);
  EXPECT_THAT(verdict.words,
              StartsWith("numeric change in the same environment: step 1, all 2 ranks, "
                         "forward/layer1/attention: out differs"));
}

TEST(Golden, OtherBitsInAnotherEnvironmentAreDrift) {
  const GoldenVerdict verdict =
      judge(golden_ledger(),
            with_changed("forward/layer1/attention", "out", 1, in_environment("libc", "2.41")));
  EXPECT_EQ(verdict.code, ExitCode::inconclusive);
  EXPECT_THAT(verdict.words, StartsWith("environment drift: libc: 2.36 against 2.41"));
  EXPECT_THAT(verdict.words, HasSubstr("step 1, all 2 ranks"));
}

TEST(Golden, AnotherControlRunIsNotComparable) {
  Ledger other = golden_ledger();
  other.mode_hash = "0";
  EXPECT_EQ(judge(golden_ledger(), other).code, ExitCode::infrastructure);
}

TEST(Golden, ATornFileOrAPlainLedgerIsNoGoldenRun) {
  Ledger torn = golden_ledger();
  torn.torn = true;
  EXPECT_THROW(judge(torn, golden_ledger()), Error);
  EXPECT_THROW(judge(sample_ledger(), sample_ledger()), Error);
}

TEST(LedgerDiff, AnotherCaseOfTheSameNameIsNamedBeforeBits) {
  Ledger a = sample_ledger(), b = with_changed("state", "weight", 0);
  a.setup = {{"optimizer.learning_rate", "0.0003"}, {"model.dropout", "0"}};
  b.setup = {{"optimizer.learning_rate", "0.001"}, {"model.dropout", "0"}};
  const LedgerDiff found = diff(a, b);
  EXPECT_EQ(found.exit_code(), ExitCode::infrastructure);
  EXPECT_THAT(text(found), HasSubstr("not compared: another optimizer: learning_rate: 0.0003 "
                                     "against 0.001\n"));
  b.setup = a.setup;
  b.setup["injections.0.kind"] = "nan";
  EXPECT_THAT(text(diff(a, b)),
              HasSubstr("not compared: other faults injected: 0.kind: none against nan\n"));
  EXPECT_EQ(judge_golden(*view_ledger(with_suite(a)), "g", *view_ledger(b)).code,
            ExitCode::infrastructure);
  b.setup = a.setup;
  EXPECT_EQ(diff(a, b).exit_code(), ExitCode::not_bit_exact);
}

TEST(LedgerDiff, ForcedItSaysPastWhat) {
  CompareOptions options;
  options.force = true;
  Ledger other = sample_ledger();
  other.seed = 7;
  const LedgerDiff found = diff(sample_ledger(), other, options);
  EXPECT_TRUE(found.comparison.equal);
  EXPECT_THAT(text(found), HasSubstr("forced past: another seed: 1 against 7\n"));
  EXPECT_THAT(text(found, true), HasSubstr("forced past: "));
  EXPECT_EQ(
      nlohmann::json::parse(diff_json({&found, 1}, ExitCode::pass))["diffs"][0]["forced_past"],
      "another seed: 1 against 7");
  EXPECT_THAT(text(diff(sample_ledger(), sample_ledger(), options)), Not(HasSubstr("forced past")));
}

TEST(LedgerDiff, ForcedRanksWithoutPartnerAreNotEqual) {
  CompareOptions options;
  options.force = true;
  Ledger one = sample_ledger();
  one.ranks.pop_back();
  const LedgerDiff found = diff(sample_ledger(), one, options);
  EXPECT_FALSE(found.comparison.equal);
  EXPECT_EQ(found.exit_code(), ExitCode::not_bit_exact);
  EXPECT_THAT(text(found),
              HasSubstr("what both have is equal; the first has 2 ranks, the second 1"));
}

// Drops step 2 of rank 1.
Ledger without_last_block() {
  Ledger ledger = sample_ledger();
  std::erase_if(ledger.ranks[1], [](const LedgerEntry& entry) { return entry.step == 2; });
  return ledger;
}

TEST(LedgerDiff, WhatIsMissingIsCalledSo) {
  EXPECT_EQ(diff(sample_ledger(), without_last_block()).cause.name, "missing steps");
  Ledger torn = without_last_block();
  torn.torn = true;
  const LedgerDiff cut = diff(sample_ledger(), torn);
  EXPECT_EQ(cut.cause.name, "cut off");
  EXPECT_FALSE(cut.b.agreement.tested && !cut.b.agreement.equal)
      << cut.b.agreement.first_difference;
  Ledger gap = sample_ledger();
  std::erase_if(gap.ranks[1], [](const LedgerEntry& entry) {
    return entry.step == 1 && entry.path == "backward/layer1/attention";
  });
  EXPECT_EQ(diff(sample_ledger(), gap).cause.name, "missing entries");
}

TEST(LedgerDiff, AnUpdateOfEqualGradientsIsNoOrderOfSums) {
  EXPECT_EQ(diff(sample_ledger(), with_changed("state", "weight")).cause.name, "no order of sums");
}

}  // namespace
}  // namespace dettax
