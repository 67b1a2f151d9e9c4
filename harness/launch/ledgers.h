#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/evidence/assemble.h"
#include "harness/launch/launcher.h"
#include "harness/plan/suite.h"

namespace dettax {

// A run of an arm that left a ledger.
struct LedgerFile {
  std::string arm;
  std::string scope;  // of results/record.h, which this run is evidence for
  std::filesystem::path path;
  Knobs knobs;  // of the arm
};

// Of one case; the first must exist.
struct LedgerFolders {
  std::filesystem::path ledgers;
  std::filesystem::path checkpoints;  // takes a folder an arm
};
// Where a run keeps those of a case and, with an arm, of that arm.
LedgerFolders ledger_folders(const std::filesystem::path& run_folder, const std::string& case_id);
std::filesystem::path checkpoint_folder(const LedgerFolders& folders, const std::string& arm);

// Runs arms once more and keeps what they computed: the first run of a group that was timed as timed
// steps run, all others under stress. `on_run` is told before each run what it is, for people.
class LedgerRuns {
 public:
  LedgerRuns(const EvidenceSettings& settings, Launcher& launcher, LedgerFolders folders,
             std::function<void(const std::string&)> on_run);

  // `runs` times in a group that is alive: scope same_process. The first one saves the checkpoints of a mode that claims its bits.
  void in_process(ArmGroup& group, int runs);
  // In fresh groups, one after the other: relaunch, for a mode that claims its bits with ranks and
  // threads elsewhere, and for one that claims invariance with other threads, micro-batches and ranks.
  void relaunched(const ArmSpec& spec);

  const std::vector<LedgerFile>& files() const { return files_; }
  // Why arms lack checkpoints; empty where none does.
  const std::vector<std::string>& not_saved() const { return not_saved_; }

 private:
  void in_fresh_group(const ArmSpec& spec, const std::string& scope, const std::string& label);
  void elsewhere(const ArmSpec& spec);
  void write(ArmGroup& group, const std::string& scope, const std::string& label, uint64_t stress,
             bool saves = false);
  CheckpointUse saved_by(const ArmSpec& spec) const;

  const EvidenceSettings& settings_;
  Launcher& launcher_;
  LedgerFolders folders_;
  std::function<void(const std::string&)> on_run_;
  std::vector<LedgerFile> files_;
  std::vector<std::string> not_saved_;
  std::map<std::string, std::string> seats_;  // where each arm's ranks were in its first group
  uint64_t next_stress_ = 1;
};

// Reads them back, by arm and scope in the order they were written; files are named relative to `folder`.
std::vector<ArmLedgers> read_ledgers(const std::vector<LedgerFile>& files,
                                     const std::filesystem::path& folder);

// The same training with the work cut differently, and what is different in words ("threads 3", "dp
// 2, micro-batch 4").
struct Variant {
  Case planned;
  std::string label;
};
std::vector<Variant> thread_variants(const Case& planned);
std::vector<Variant> rank_variants(const Case& planned);

// Label, file name and scope of a run whose ranks and threads are elsewhere.
inline constexpr const char* kOtherAllocation = "other_allocation";

// What stands for that label in a ledger's file name, <arm>.<this>.ledger.
std::string ledger_run_name(const std::string& label);

// Group starts and ledger runs that a suite's evidence takes for one case: for time estimates.
int ledger_runs(const Case& planned, const Suite& suite);

}  // namespace dettax
