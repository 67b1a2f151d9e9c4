#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "results/run_folder.h"
#include "tests/cli/program.h"
#include "tests/profiles/kineto_text.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::run_program;
using testing::TemporaryFolder;

// Three steps of two operations, the second of this length.
std::string trace_of(double length_us, bool kernels = true) {
  KinetoText text;
  for (int step = 0; step < 3; ++step) {
    const double begin = (400 + length_us) * step;
    text.step(step, begin, 400 + length_us);
    text.work("aten::mm", "gemm", begin + 1, begin + 100, 200);
    if (!kernels) text.events.pop_back();
    text.work("aten::scatter_add", "scatter", begin + 20, begin + 300, length_us);
    if (!kernels) text.events.pop_back();
  }
  return text.text();
}

class AttributeCommand : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    write_file_atomically(folder_.path() / name, text);
  }
  Outcome run(const std::string& arguments) {
    return run_program(folder_.path(), "attribute " + arguments);
  }
  TemporaryFolder folder_;
};

TEST_F(AttributeCommand, PrintsATableOrJsonThatCloses) {
  write("fast.json", trace_of(20));
  write("det.json", trace_of(50));
  const Outcome table = run("fast.json det.json");
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("difference +30.0 us"));
  EXPECT_THAT(table.out, HasSubstr("aten::scatter_add"));
  const Outcome json = run("fast.json det.json --json -");
  EXPECT_EQ(json.exit_code, 0) << json.err;
  const auto parsed = nlohmann::json::parse(json.out);
  double sum = parsed["unmapped"]["delta_seconds"].get<double>();
  for (const auto& row : parsed["mechanisms"]) sum += row["delta_seconds"].get<double>();
  EXPECT_NEAR(sum, parsed["step"]["delta_seconds"].get<double>(), 1e-12);
  EXPECT_NEAR(sum, 30e-6, 1e-12);
  EXPECT_EQ(run("fast.json det.json --json where.json").exit_code, 0);
  EXPECT_EQ(read_file(folder_.path() / "where.json"), json.out);
}

TEST_F(AttributeCommand, SaysInOneLineWhatIsWrong) {
  write("fast.json", trace_of(20));
  write("blind.json", trace_of(20, false));
  write("empty.json", "{}");
  write("cut.json", trace_of(20).substr(0, 900));
  struct Row {
    std::string arguments;
    int exit_code;
    std::string err;
  };
  for (const auto& [arguments, exit_code, err] : std::vector<Row>{
           {"fast.json blind.json", 4,
            "dettax: blind.json: holds 6 launches and no kernel: the profiler could not see the "
            "device; nothing can be attributed\n"},
           {"fast.json cut.json", 2,
            "dettax: cut.json: is damaged at byte 900, in event 5: the file ends early; --salvage "
            "takes what can be read of it\n"},
           {"fast.json none.json", 2,
            "dettax: none.json: cannot be read: No such file or directory\n"},
           {"fast.json fast.json --max-unmapped 2", 2,
            "dettax: --max-unmapped: a ratio from 0 to 1 is expected, such as 0.02\n"},
           {"none.json fast.json --json nowhere/where.json", 2,
            "dettax: --json nowhere/where.json: its folder does not exist\n"},
           {"fast.json blind.json --json fast.json", 2,
            "dettax: --json fast.json: is what is read as FAST; another file is needed\n"},
           {"fast.json empty.json", 4,
            "dettax: empty.json: holds no kernel: record it with the device's activities; nothing "
            "can be attributed\n"},
           {"fast.json fast.json --step iteration", 2,
            "dettax: --step iteration: fast.json marks no such step; it has, with a number behind: "
            "ProfilerStep\n"},
           {"fast.json empty.json --step ProfilerStep", 2,
            "dettax: --step ProfilerStep: empty.json marks no such step; none of its ranges ends "
            "in a number\n"},
           {"fast.json fast.json --unprofiled-fast 1", 2,
            "dettax: --unprofiled-fast and --unprofiled-det: both are needed, or neither\n"}}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << arguments;
    EXPECT_EQ(outcome.err, err) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
  }
}

}  // namespace
}  // namespace dettax
