#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "harness/evidence/ledger.h"
#include "harness/launch/run_suite.h"
#include "tests/launch/support.h"

namespace dettax::testing {

// One case of a user through a whole suite, without what takes long and says nothing here.
class CaseRun : public ::testing::Test {
 protected:
  Record run(const std::string& case_yaml, const std::string& modes = "[deterministic]",
             const std::string& program = DETTAX_PROGRAM) {
    Suite suite = tiny_suite(folder_.path(), "  - " + case_yaml + "\n", modes);
    suite.evidence.controls = false;
    suite.evidence.relaunch = false;
    suite.evidence.other_allocation = other_allocation_;
    RunFolder folder = RunFolder::create(folder_.path() / "runs", suite);
    runs_ = folder.path();
    LaunchSettings settings = launch_settings(folder.path());
    settings.program = program;
    return run_suite(suite, folder, *make_thread_launcher(settings), {}).records.at(0);
  }
  Ledger ledger(const Record& record, const std::string& name) const {
    const auto path = runs_ / "ledgers" / record.case_id / (name + ".ledger");
    std::ifstream file(path, std::ios::binary);
    return read_ledger(file, path.string());
  }
  static const ArmResult& arm(const Record& record, const std::string& name) {
    const ArmResult* found = find_arm(record, name);
    if (found == nullptr) throw std::runtime_error("no arm " + name);
    return *found;
  }
  static const ArmEvidence& evidence(const Record& record, const std::string& arm) {
    const ArmEvidence* found = find_evidence(record, arm);
    if (found == nullptr) throw std::runtime_error("no evidence of arm " + arm);
    return *found;
  }

  bool other_allocation_ = false;
  TemporaryFolder folder_;
  std::filesystem::path runs_;
};

}  // namespace dettax::testing
