#pragma once

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/comm/mpi_session.h"
#include "harness/launch/process.h"
#include "results/run_folder.h"
#include "tests/launch/support.h"

namespace dettax::testing {

// Why clusters cannot be put up here; empty where they can. They are started on demand only: they
// need root and stir up network namespaces or ports.
inline std::string why_no_cluster(const std::vector<std::string>& programs) {
  if (std::getenv("DETTAX_CLUSTER_TESTS") == nullptr) {  // NOLINT(concurrency-mt-unsafe)
    return "set DETTAX_CLUSTER_TESTS=1 to start private clusters on this machine";
  }
  if (::geteuid() != 0) return "private clusters need root";
  if (!why_no_mpi().empty()) return why_no_mpi();
  for (const std::string& program : programs) {
    const std::string command = "command -v " + program + " >/dev/null 2>&1";
    if (std::system(command.c_str()) != 0) {  // NOLINT(concurrency-mt-unsafe)
      return program + " is not installed: ./dev install check";
    }
  }
  return "";
}

inline bool wait_until(double seconds, const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

// Output of a shell command, without the last end of line.
inline std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  ::pclose(pipe);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

inline std::string cluster_script(const std::string& name) {
  return DETTAX_SOURCE_DIR "/tests/cluster/" + name;
}

// Four data-parallel ranks of the smallest model.
inline std::string cluster_suite_yaml(const std::string& cases, const std::string& measure,
                                      bool relaunch) {
  return std::string("modes: [deterministic]\n") +
         "measure: {warmup_steps_min: 1, warmup_steps_max: 2, steps_per_block: 2, rounds_min: 3,\n"
         "          target_half_width: 0.001, step_timeout_seconds: 5, " +
         measure +
         "}\n"
         "evidence: {steps: 2, runs: 2, controls: false, relaunch: " +
         (relaunch ? "true" : "false") + ", other_allocation: " + (relaunch ? "true" : "false") +
         "}\n"
         "defaults:\n"
         "  model: {base: gpt-tiny, layers: 1}\n"
         "  layout: dp4\n"
         "  threads: 1\n"
         "  batch: {micro: 1, global: 4, sequence_length: 32}\n"
         "cases:\n" +
         cases;
}

inline constexpr const char* kShortMeasure = "rounds_max: 3, budget_seconds: 1";
// Long enough for something to happen to it.
inline constexpr const char* kLongMeasure = "rounds_max: 100000, budget_seconds: 8";

inline Process start_shell(const std::string& command, const std::filesystem::path& output,
                           const std::map<std::string, std::string>& environment = {}) {
  ProcessSpec spec;
  spec.program = "/bin/bash";
  spec.arguments = {"-c", command};
  spec.output = output;
  spec.environment = environment;
  return Process::start(spec);
}

// The run that lies in a folder, as the only one.
inline RunFolder only_run(const std::filesystem::path& folder) {
  return RunFolder::open(std::filesystem::directory_iterator(folder)->path());
}

inline const ArmResult& arm_of(const Record& record, const std::string& name) {
  if (const ArmResult* arm = find_arm(record, name)) return *arm;
  throw std::runtime_error("no arm " + name + ": " + record.verdict.reason);
}

inline std::string digest_of(const Record& record, const std::string& arm) {
  if (const ArmEvidence* evidence = find_evidence(record, arm)) return evidence->ledger_digest;
  return "no evidence: " + record.verdict.reason;
}

// The ledger digest of the suite's first case with ranks as threads.
inline std::string digest_of_threads(const std::filesystem::path& folder,
                                     const std::string& suite) {
  Process run = start_shell(std::string(DETTAX_PROGRAM) + " run " + suite +
                                " --no-progress --output-dir " + (folder / "threads").string(),
                            folder / "threads.log");
  EXPECT_TRUE(run.wait(120)) << read_text(folder / "threads.log");
  return digest_of(only_run(folder / "threads").records().at(0), "deterministic");
}

}  // namespace dettax::testing
