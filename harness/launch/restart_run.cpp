#include "harness/launch/restart_run.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/launch/fault.h"
#include "harness/train/checkpoint.h"
#include "harness/train/checkpoint_manifest.h"
#include "harness/train/checkpoint_names.h"
#include "harness/train/rank_states.h"

namespace dettax {
namespace {

class RestartRun {
 public:
  RestartRun(const ArmSpec& spec, Launcher& launcher, const RestartSettings& settings)
      : spec_(spec), launcher_(launcher), settings_(settings) {}

  // One group of processes, which have ended when this returns.
  CheckpointsUsed run(const char* name, int steps, uint64_t stress,
                      const CheckpointUse& checkpoints) {
    const auto group = launcher_.start(spec_, name);
    return group->write_ledger_with(
        {spec_.planned.seed, steps, ledger(name).string(), stress, settings_.depth, checkpoints});
  }
  std::filesystem::path ledger(const char* name) const {
    return settings_.folder / fmt::format("{}.ledger", name);
  }

 private:
  const ArmSpec& spec_;
  Launcher& launcher_;
  const RestartSettings& settings_;
};

StateTables decoded(const std::vector<std::string>& tables) {
  StateTables states;
  for (const std::string& table : tables) states.push_back(decode_states(table));
  return states;
}

// Faults that make every run another, from their step on, and which of them may have made this difference.
std::vector<std::string> explaining(const ArmSpec& spec, const RestartVerdict& verdict) {
  std::vector<std::string> words;
  for (const Injection& fault : spec.planned.injections) {
    const auto follows = [&](const LedgerComparison& found) {
      return found.comparable && !found.equal && found.first && found.first->step >= fault.step;
    };
    if (!changes_bits(fault, spec) || !(follows(verdict.before) || follows(verdict.after)))
      continue;
    words.push_back(
        fmt::format("{}{}{} from step {} on", fault.kind, fault.op.empty() ? "" : " of " + fault.op,
                    fault.tensor.empty() ? "" : ", tensor " + fault.tensor, fault.step));
  }
  return words;
}

}  // namespace

std::string why_no_checkpoint(const std::filesystem::path& folder) {
  for (const NamedCheckpoint& one : named_checkpoints(folder)) {
    try {
      read_manifest(one.path);
    } catch (const Error& error) {
      return error.what();
    }
  }
  return folder.string() + ": has no complete checkpoint; do all ranks reach this folder?";
}

RestartVerdict run_restart_check(const ArmSpec& spec, Launcher& launcher,
                                 const RestartSettings& settings) {
  RestartRun runs(spec, launcher, settings);
  const std::filesystem::path checkpoints = settings.folder / "checkpoints";
  CheckpointUse save, load;
  save.save_into = checkpoints.string();
  save.save_at = settings.save_at;
  runs.run("straight", settings.steps, 0, {});
  runs.run("saved", settings.save_at, 1, save);
  const auto last = nearest_checkpoint(checkpoints, settings.save_at);
  if (!last) throw Error(ErrorKind::infrastructure, why_no_checkpoint(checkpoints));
  load.load = last->path.string();
  load.from = settings.save_at;
  load.leave_out = settings.leave_out;
  const CheckpointsUsed states = runs.run("resumed", settings.steps, 2, load);

  RestartVerdict verdict =
      judge_restart(*open_ledger(runs.ledger("straight")), *open_ledger(runs.ledger("saved")),
                    *open_ledger(runs.ledger("resumed")), settings.save_at);
  verdict.items = judge_items(states_of(read_manifest(last->path)), decoded(states.restored),
                              decoded(states.fresh));
  for (RestartItem& item : verdict.items)
    item.left_out = std::ranges::find(settings.leave_out, item.item) != settings.leave_out.end();
  verdict.faults = explaining(spec, verdict);
  return verdict;
}

}  // namespace dettax
