#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/evidence/ledger.h"
#include "harness/launch/launcher.h"
#include "harness/plan/suite.h"
#include "results/record.h"

namespace dettax {

struct ControlSettings {
  int steps = 1;           // a ledger covers
  double cap_seconds = 0;  // of all knobs together
  std::filesystem::path folder;
  std::function<void(const std::string&)> on_run;  // told before each run what it is, for people
};

// Puts each ordering knob of a deterministic mode, alone at its fast value, through the comparison
// that the mode itself passed. One group of processes for all knobs.
class ControlRuns {
 public:
  // Every row is there from the start: not shown where the reason is known, else not run.
  ControlRuns(ArmSpec spec, ControlSettings settings);

  // Fills the rows that are left, or throws what went wrong; what was found until then stays.
  void run(Launcher& launcher);
  // Gives the rows that were not run this reason.
  void explain(const std::string& reason);
  const std::vector<KnobControl>& rows() const { return rows_; }

 private:
  void run_knob(ArmGroup& group, KnobControl& row, double cap_seconds);
  Ledger make_ledger(ArmGroup& group, const std::string& knob, const std::string& name);
  double elapsed_seconds() const;

  ArmSpec spec_;
  ControlSettings settings_;
  std::vector<KnobControl> rows_;
  std::chrono::steady_clock::time_point start_;
  uint64_t ledgers_ = 0;
};

// Ledgers that the controls of a case take, at least: for time estimates.
int control_ledgers(const Case& planned, const Suite& suite);

// The arm whose knobs are weakened: the first that claims to reproduce its bits.
const Mode* control_mode(const Suite& suite);

}  // namespace dettax
