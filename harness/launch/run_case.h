#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/launch/launcher.h"
#include "harness/plan/suite.h"
#include "results/record.h"

namespace dettax {

struct CaseProgress {
  std::string case_id;
  std::string words;    // what goes on: "measuring, round 4, half-width 1.2 %"
  double fraction = 0;  // of this case
};

// The arms of a case: fast, control, and one for each mode of the suite.
std::vector<ArmSpec> arm_specs(const Case& planned, const Suite& suite);

struct CaseContext {
  const Suite& suite;
  Launcher& launcher;
  std::filesystem::path folder;  // of the run: ledgers go to its ledgers/<case>/
  std::string run_id;
  std::function<void(const CaseProgress&)> on_progress;
  std::function<bool()> interrupted;  // all is to end
  // Told why checkpoints are missing that the run went on without.
  std::function<void(const std::string&)> on_not_saved;
};

// One case from start to verdict: its arms are started, measured in turn, and made to prove their
// bits. Whatever goes wrong with an arm ends in the record. Throws only if the run is interrupted.
Record run_case(const Case& planned, const CaseContext& context);

}  // namespace dettax
