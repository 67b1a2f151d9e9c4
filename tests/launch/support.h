#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/launch/launcher.h"
#include "harness/launch/rank_variables.h"
#include "harness/plan/suite.h"

namespace dettax::testing {

// A folder of its own, gone with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dettax-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A suite of the smallest model on two ranks; `cases` holds further keys of each case, one flow mapping an item.
inline std::string tiny_suite_yaml(const std::string& cases,
                                   const std::string& modes = "[deterministic]",
                                   const std::string& more = "") {
  // Short where a test waits for it, long where a busy machine must not meet it.
  const std::string timeout = cases.find("kind: hang") == std::string::npos ? "30" : "3";
  return "modes: " + modes +
         "\n"
         "measure: {warmup_steps_min: 1, warmup_steps_max: 2, steps_per_block: 2, rounds_min: 3, "
         "rounds_max: 3,\n"
         "          budget_seconds: 1, step_timeout_seconds: " +
         timeout +
         ", target_half_width: 1.0}\n"
         "evidence: {steps: 2, runs: 2, relaunch: true, other_allocation: false}\n" +
         more +
         "defaults:\n"
         "  model: {base: gpt-tiny, layers: 2}\n"
         "  layout: dp2\n"
         "  threads: 1\n"
         "  batch: {micro: 2, global: 4, sequence_length: 32}\n"
         "cases:\n" +
         cases;
}

inline std::string write_suite(const std::filesystem::path& folder, const std::string& yaml,
                               const std::string& name = "test") {
  const std::filesystem::path path = folder / (name + ".yaml");
  std::ofstream(path) << yaml;
  return path.string();
}

inline Suite tiny_suite(const std::filesystem::path& folder, const std::string& cases,
                        const std::string& modes = "[deterministic]") {
  return load_suite(write_suite(folder, tiny_suite_yaml(cases, modes)));
}

inline LaunchSettings launch_settings(const std::filesystem::path& folder) {
  LaunchSettings settings;
  settings.program = DETTAX_PROGRAM;
  settings.log_folder = folder;
  settings.step_timeout_seconds = 30;  // a test that waits for a hang sets its own
  return settings;
}

// An environment that is what it is given.
inline VariableLookup lookup(const std::map<std::string, std::string>& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

// The one line with which `body` refuses what it was given.
template <class F>
std::string refusal_of(F body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::config);
    const std::string words = error.what();
    EXPECT_EQ(words.find('\n'), std::string::npos) << words;
    return words;
  }
  return "nothing was refused";
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The error that `body` ends with.
template <class F>
Error failure_of(F body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::internal, "nothing went wrong");
}

// User and system time of a process, in clock ticks.
inline int64_t cpu_ticks(int64_t pid) {
  const std::string stat = read_text("/proc/" + std::to_string(pid) + "/stat");
  std::istringstream fields(stat.substr(stat.rfind(')') + 2));
  std::string skipped;
  int64_t user = 0, system = 0;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  fields >> user >> system;
  return user + system;
}

}  // namespace dettax::testing
