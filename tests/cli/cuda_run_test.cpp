// Whole runs of backend cuda by the program itself, over a plug-in of stand-ins and a library that plays the driver.

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>

#include "tests/cli/program.h"

#if defined(EMULATED_CUDA)
namespace dettax::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// The program with the plug-in beside it, where a driver answers.
class ProgramWithDevice {
 public:
  ProgramWithDevice() {
    fs::copy_file(DETTAX_PROGRAM, program());
    fs::create_symlink(EMULATED_CUDA, folder_.path() / fs::path(EMULATED_CUDA).filename());
    for (const char* library : {"libcuda.so.1", "libnvidia-ml.so.1"})
      fs::create_symlink(FAKE_CUDA, folder_.path() / library);
  }
  Outcome run(const std::string& arguments) const {
    const std::string out = (folder_.path() / "stdout.txt").string();
    const std::string err = (folder_.path() / "stderr.txt").string();
    const std::string command = "cd " + folder_.path().string() + " && LD_LIBRARY_PATH=. " +
                                program().string() + " " + arguments + " >" + out + " 2>" + err +
                                " </dev/null";
    const int status = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe): one thread
    return {WEXITSTATUS(status), read_text(out), read_text(err)};
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name) << text;
  }
  const fs::path& folder() const { return folder_.path(); }

 private:
  fs::path program() const { return folder_.path() / "dettax"; }
  TemporaryFolder folder_;
};

// Small, since threads of a block are fibres.
std::string emulated_suite(const std::string& more_of_case) {
  return "modes: [deterministic]\n"
         "measure: {warmup_steps_min: 1, warmup_steps_max: 1, steps_per_block: 1, rounds_min: 3, "
         "rounds_max: 3, budget_seconds: 1}\n"
         "evidence: {steps: 2, runs: 2, relaunch: true}\n"
         "cases:\n"
         "  - model: {base: gpt-tiny, vocabulary: 120, layers: 1, width: 32, heads: 2, head_width: "
         "16, "
         "ffn_width: 64}\n"
         "    backend: cuda\n"
         "    threads: 1\n"
         "    batch: {micro: 2, global: 4, sequence_length: 8}\n" +
         more_of_case;
}

TEST(CudaRun, DoctorFindsTheDevice) {
  const ProgramWithDevice program;
  const Outcome outcome = program.run("doctor");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("2 devices, driver for CUDA 12.8"));
  EXPECT_THAT(outcome.out, HasSubstr("CUDA part made for an emulated device"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("cases with backend cuda are refused")));
}

TEST(CudaRun, MeasuresAndProvesACaseOnTheDevice) {
  const ProgramWithDevice program;
  program.write("suite.yaml", emulated_suite(""));
  const Outcome outcome = program.run("run suite.yaml --output-dir runs");
  // Too short to resolve a tax; the proof is whole.
  EXPECT_THAT(outcome.exit_code, ::testing::AnyOf(0, 3)) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("fast did differ, so this case can show a difference"));
  EXPECT_THAT(outcome.out,
              HasSubstr("deterministic   2 runs equal   2 runs equal      2 runs equal"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("one compute thread a rank")));
  std::string records;
  for (const auto& entry : fs::recursive_directory_iterator(program.folder() / "runs")) {
    if (entry.path().extension() == ".json" || entry.path().extension() == ".jsonl")
      records += read_text(entry.path());
  }
  EXPECT_THAT(records, HasSubstr("cuda, emulated device, compute capability 9.0"));
}

TEST(CudaRun, RefusesInOneLineWhatIsNotThereYet) {
  const ProgramWithDevice program;
  const auto refusal = [&](const std::string& more_of_case, const std::string& flags) {
    program.write("suite.yaml", emulated_suite(more_of_case));
    const Outcome outcome = program.run("run suite.yaml --dry-run " + flags);
    EXPECT_EQ(outcome.exit_code, 77) << outcome.out << outcome.err;
    return outcome.out;
  };
  EXPECT_THAT(refusal("    layout: dp2\n", ""),
              HasSubstr("layout dp2 has 2 ranks; backend cuda has one yet, without NCCL"));
  EXPECT_THAT(refusal("    precision: bf16\n", ""),
              HasSubstr("precision bf16 is not available on the cuda backend yet; use fp32, tf32"));
  EXPECT_THAT(refusal("", "--profile"),
              HasSubstr("profile.arms: backend cuda has no profiler yet; leave it out"));
}

}  // namespace
}  // namespace dettax::testing
#endif
