#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/evidence/ledger.h"
#include "tests/cli/program.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::read_text;
using testing::run_program;
using testing::TemporaryFolder;

const std::string kGolden = DETTAX_SOURCE_DIR "/tests/golden/control.ledger";

Ledger golden() {
  std::ifstream in(kGolden, std::ios::binary);
  return read_ledger(in, kGolden);
}

void write(const std::filesystem::path& path, const Ledger& ledger) {
  std::ofstream out(path, std::ios::binary);
  write_ledger(out, ledger);
}

// The last entry of step 0 on rank 1 that an op of a layer left.
LedgerEntry& some_entry(Ledger& ledger) {
  for (LedgerEntry& entry : ledger.ranks[1]) {
    if (entry.step == 0 && entry.path.ends_with("backward/layer0/attention")) return entry;
  }
  throw std::runtime_error("the golden run has no attention");
}

class GoldenFile : public ::testing::Test {
 protected:
  Outcome verify(const Ledger& ledger) {
    write(folder_.path() / "golden.ledger", ledger);
    return run_program(folder_.path(), "verify --golden golden.ledger --json verify.json");
  }
  TemporaryFolder folder_;
};

TEST_F(GoldenFile, TellsANumericChangeFromDrift) {
  Ledger changed = golden();
  const Outcome base = verify(changed);
  ASSERT_EQ(base.exit_code, 0) << base.out << base.err;
  const auto now = nlohmann::json::parse(read_text(folder_.path() / "verify.json"));
  changed.environment =
      now["diffs"][0]["b"]["environment"].get<std::map<std::string, std::string>>();
  some_entry(changed).value.lane0 ^= 1;
  const Outcome numeric = verify(changed);
  EXPECT_EQ(numeric.exit_code, 5) << numeric.out;
  EXPECT_THAT(numeric.out, HasSubstr("numeric change in the same environment: step 0, rank 1, "));
  EXPECT_THAT(numeric.out, HasSubstr("/attention: dq differs"));
  changed.environment["libc"] = "1.0";
  const Outcome drift = verify(changed);
  EXPECT_EQ(drift.exit_code, 3) << drift.out;
  EXPECT_THAT(drift.out, HasSubstr("environment drift: libc: 1.0 against "));
}

TEST_F(GoldenFile, SaysInOneLineWhatIsWrong) {
  EXPECT_THAT(run_program(folder_.path(), "verify").err,
              HasSubstr("verify: --golden FILE is missing"));
  const Outcome missing = run_program(folder_.path(), "verify --golden none.ledger");
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, HasSubstr("none.ledger: no such ledger"));
  Ledger plain = golden();
  plain.suite.clear();
  const Outcome none = verify(plain);
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("is a ledger but no golden run"));
}

TEST_F(GoldenFile, IsReplacedAlsoWhereItIsDamaged) {
  const std::string whole = read_text(kGolden);
  std::ofstream(folder_.path() / "golden.ledger", std::ios::binary) << whole.substr(0, 900);
  const Outcome outcome = run_program(folder_.path(), "verify --golden golden.ledger --record");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("what is replaced: damaged or outdated (golden.ledger"));
  EXPECT_EQ(run_program(folder_.path(), "verify --golden golden.ledger").exit_code, 0);
  std::ofstream(folder_.path() / "notes.txt") << "no ledger";
  const Outcome other = run_program(folder_.path(), "verify --golden notes.txt --record");
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("is no ledger and is not replaced by one"));
  EXPECT_EQ(read_text(folder_.path() / "notes.txt"), "no ledger");
}

TEST_F(GoldenFile, IsNotRecordedOverARunsLedger) {
  Ledger evidence = golden();
  evidence.suite.clear();
  write(folder_.path() / "run_1.ledger", evidence);
  const std::string before = read_text(folder_.path() / "run_1.ledger");
  const Outcome outcome = run_program(folder_.path(), "verify --golden run_1.ledger --record");
  EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("run_1.ledger: is a run's ledger"));
  EXPECT_EQ(read_text(folder_.path() / "run_1.ledger"), before);
}

TEST_F(GoldenFile, IsNotRecordedOfACaseThatCannotRunHere) {
  testing::write_suite(folder_.path(),
                       testing::tiny_suite_yaml("  - {model: llama3-70b, layout: dp1}\n"));
  const Outcome outcome =
      run_program(folder_.path(), "verify --golden g.ledger --record --suite test.yaml");
  EXPECT_EQ(outcome.exit_code, 77) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("memory"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "g.ledger"));
}

TEST_F(GoldenFile, JsonGoesWhereItIsAskedToAndNowhereElse) {
  write(folder_.path() / "golden.ledger", golden());
  const auto run = [&](const std::string& arguments) {
    return run_program(folder_.path(), "verify --golden golden.ledger --json " + arguments);
  };
  const Outcome out = run("-");
  EXPECT_EQ(out.exit_code, 0) << out.err;
  EXPECT_EQ(nlohmann::json::parse(out.out)["exit_code"], 0);
  EXPECT_EQ(run("golden.ledger").exit_code, 2);
  EXPECT_EQ(run("nowhere/v.json").exit_code, 2);
  EXPECT_EQ(run("v.json --record").exit_code, 2);
  EXPECT_EQ(golden(), [&] {
    std::ifstream in(folder_.path() / "golden.ledger", std::ios::binary);
    return read_ledger(in, "golden.ledger");
  }());
}

TEST_F(GoldenFile, OfATextIsRepeatedFromAnotherFolder) {
  std::filesystem::create_directories(folder_.path() / "sub");
  std::ofstream(folder_.path() / "sub/text.txt") << std::string(4000, 'x');
  testing::write_suite(folder_.path() / "sub",
                       testing::tiny_suite_yaml("  - {data: {kind: text, path: text.txt}}\n"),
                       "of");
  const Outcome recorded =
      run_program(folder_.path(), "verify --golden sub/t.ledger --record --suite sub/of.yaml");
  ASSERT_EQ(recorded.exit_code, 0) << recorded.err << recorded.out;
  std::filesystem::rename(folder_.path() / "sub", folder_.path() / "moved");
  EXPECT_EQ(run_program(folder_.path(), "verify --golden moved/t.ledger").exit_code, 0);
  std::filesystem::remove(folder_.path() / "moved/text.txt");
  const Outcome lost = run_program(folder_.path(), "verify --golden moved/t.ledger");
  EXPECT_EQ(lost.exit_code, 2);
  EXPECT_THAT(lost.err, HasSubstr("moved/t.ledger:"));
  EXPECT_THAT(lost.err, HasSubstr("\"text.txt\" does not exist in "));
}

TEST(DiffCommand, ComparesLedgerFiles) {
  const TemporaryFolder folder;
  Ledger changed = golden();
  some_entry(changed).value.lane0 ^= 1;
  write(folder.path() / "b.ledger", changed);
  EXPECT_EQ(run_program(folder.path(), "diff " + kGolden + " " + kGolden).exit_code, 0);
  const Outcome differs =
      run_program(folder.path(), "diff " + kGolden + " b.ledger --json out.json");
  EXPECT_EQ(differs.exit_code, 5);
  EXPECT_THAT(differs.out, HasSubstr("different: step 0, rank 1, "));
  EXPECT_EQ(nlohmann::json::parse(read_text(folder.path() / "out.json"))["exit_code"], 5);
  EXPECT_EQ(run_program(folder.path(), "diff b.ledger b.ledger --json b.ledger").exit_code, 2);
  EXPECT_EQ(run_program(folder.path(), "diff b.ledger b.ledger --json no/b.json").exit_code, 2);
  changed.seed = 7;
  write(folder.path() / "c.ledger", changed);
  const Outcome other = run_program(folder.path(), "diff " + kGolden + " c.ledger");
  EXPECT_EQ(other.exit_code, 4);
  EXPECT_THAT(other.out, HasSubstr("not compared: another seed: 1 against 7"));
  EXPECT_EQ(run_program(folder.path(), "diff " + kGolden + " .").exit_code, 2);
}

}  // namespace
}  // namespace dettax
