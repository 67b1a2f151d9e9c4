#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/evidence/restart_check.h"
#include "harness/launch/launcher.h"

namespace dettax {

struct RestartSettings {
  int steps = 4;
  int save_at = 2;  // steps done when it is saved; 1 to steps - 1
  LedgerDepth depth = LedgerDepth::op;
  std::vector<std::string>
      leave_out;  // items that are not taken from the checkpoint: the check must fail and name them
  // Takes ledgers and the checkpoint; every rank must reach it.
  std::filesystem::path folder;
};

// Three groups of processes, one after the other: `steps` straight; up to the save, after which they end; and, in new processes, from
// the checkpoint on. The second and the third run under stress, so that equal bits are no luck.
RestartVerdict run_restart_check(const ArmSpec& spec, Launcher& launcher,
                                 const RestartSettings& settings);

// What a save left there, where that is nothing to go on from: what is wrong with it.
std::string why_no_checkpoint(const std::filesystem::path& folder);

}  // namespace dettax
