#include "checkpoint_runs.h"

namespace dettax::testing_support {

namespace {

void log_state(const TrainStep& train, Log& log) {
  train.fingerprint([&](std::string_view name, const Fingerprint& value) {
    log.push_back({"state", std::string(name), value});
  });
}

}  // namespace

Log train_on(RankRun& rank, int steps) {
  Log log;
  log_state(rank.train, log);
  for (int i = 0; i < steps; ++i) {
    const StepResult result = rank.train.step();
    log.push_back({"result", "loss", fingerprint(&result.loss, 1, sizeof(float))});
    log_state(rank.train, log);
  }
  return log;
}

SavedRun train_and_save(const Case& planned, const Mode& mode, int steps, int more,
                        const std::filesystem::path& folder,
                        const std::function<void(RankRun&)>& disturb) {
  SavedRun run;
  run.after.resize(static_cast<size_t>(planned.layout.ranks()));
  train_on_ranks(planned, mode, [&](RankRun& rank) {
    rank.train.reset(planned.seed);
    if (disturb) disturb(rank);
    for (int i = 0; i < steps; ++i) rank.train.step();
    rank.train.inject(nullptr);
    CheckpointSaver saver({folder}, rank.communicator);
    saver.schedule(rank.train);
    // While it is written.
    Log after = train_on(rank, more);
    const std::filesystem::path path = saver.finish();
    const auto index = static_cast<size_t>(rank.communicator.rank());
    run.after[index] = std::move(after);
    if (index == 0) run.checkpoint = path;
  });
  return run;
}

std::vector<Log> resume(const Case& planned, const Mode& mode,
                        const std::filesystem::path& checkpoint, int more,
                        const std::set<std::string>& leave_out) {
  std::vector<Log> logs(static_cast<size_t>(planned.layout.ranks()));
  train_on_ranks(planned, mode, [&](RankRun& rank) {
    load_checkpoint(checkpoint, rank.train, {leave_out});
    logs[static_cast<size_t>(rank.communicator.rank())] = train_on(rank, more);
  });
  return logs;
}

}  // namespace dettax::testing_support
