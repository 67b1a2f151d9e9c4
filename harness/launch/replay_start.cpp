#include "harness/launch/replay_start.h"

#include <algorithm>
#include <system_error>
#include <tuple>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/train/checkpoint.h"
#include "harness/train/checkpoint_manifest.h"
#include "harness/train/checkpoint_names.h"

namespace dettax {
namespace {

// Those with which this step is still to come, the nearest first. Two runs of one arm share a folder.
std::vector<NamedCheckpoint> candidates(std::span<const RecordedRun> runs, int64_t step,
                                        std::vector<std::string>& passed_over) {
  std::vector<NamedCheckpoint> found;
  std::vector<std::filesystem::path> looked_at;
  for (const RecordedRun& run : runs) {
    if (run.checkpoints.empty() || std::ranges::find(looked_at, run.checkpoints) != looked_at.end())
      continue;
    looked_at.push_back(run.checkpoints);
    std::error_code error;
    for (NamedCheckpoint& one : named_checkpoints(run.checkpoints, error)) {
      if (one.name.step > 0 && one.name.step <= step) found.push_back(std::move(one));
    }
    if (error)
      passed_over.push_back(
          fmt::format("{}: cannot be read: {}", run.checkpoints.string(), error.message()));
  }
  std::ranges::stable_sort(found, [](const NamedCheckpoint& a, const NamedCheckpoint& b) {
    return std::tie(a.name.step, a.name.attempt) > std::tie(b.name.step, b.name.attempt);
  });
  return found;
}

// The first part of the state that the run recorded after that many steps and that was not saved so; empty: all was.
std::string foreign_state(const CheckpointManifest& saved, LedgerSource& ledger) {
  LedgerColumns columns;
  ledger.load(0, saved.step - 1, columns);
  int64_t held = 0;
  for (size_t i = 0; i < columns.size(); ++i) {
    const LedgerName& name = ledger.names().at(columns.names[i]);
    if (name.path != "state") continue;
    ++held;
    const SavedTensor* tensor = saved.find(name.tensor);
    if (tensor == nullptr || tensor->copies_differ() || tensor->fingerprint() != columns.values[i])
      return name.tensor;
  }
  return held == 0 ? "state" : "";
}

// Why replays of these runs cannot begin there; empty: they can.
std::string why_not_from(const NamedCheckpoint& named, std::span<const RecordedRun> runs) {
  const std::filesystem::path& checkpoint = named.path;
  try {
    const CheckpointManifest saved = read_manifest(checkpoint);
    if (saved.step != named.name.step)
      return fmt::format("{}: is of step {}", checkpoint.string(), saved.step);
    for (const RecordedRun& run : runs) {
      const std::string foreign = foreign_state(saved, *run.ledger);
      if (!foreign.empty())
        return fmt::format(
            "{}: is not of the run that was recorded: its {} is not what {} has "
            "after step {}",
            checkpoint.string(), foreign, run.name, saved.step - 1);
    }
    verify_checkpoint(checkpoint);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

ReplayStart nearest_start(std::span<const RecordedRun> runs, int64_t step) {
  ReplayStart start;
  for (const NamedCheckpoint& one : candidates(runs, step, start.passed_over)) {
    std::string why = why_not_from(one, runs);
    if (why.empty()) {
      start.step = one.name.step;
      start.checkpoint = one.path;
      break;
    }
    start.passed_over.push_back(std::move(why));
  }
  return start;
}

}  // namespace dettax
