#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "results/record.h"

namespace dettax {

// What a trainer's log says of operations that have no deterministic version: an exception ends the run, a warning lets it go on with the
// operation unprotected.
struct UnprotectedOp {
  std::string op;        // as the framework names it
  int64_t warnings = 0;  // in the whole log
  std::string place;     // layer, or file and line, if the log tells
};
struct RefusedOp {
  std::string op;
  std::optional<int64_t> step;  // the one that was under way, as the log counts
  std::string place;
  std::string reason;  // why, or what was not set
};
// A start from a checkpoint, the first step after it whose loss or gradient norm was no number, and the last that was reported.
struct LoggedLoad {
  int64_t step = 0;  // that the checkpoint is of
  std::optional<int64_t> nan_step, last_step;
};
struct TrainerLog {
  int64_t lines = 0;
  std::optional<int64_t> first_step, last_step;  // that were reported as done
  std::optional<RefusedOp> refused;              // the first
  std::vector<UnprotectedOp> unprotected;        // each once, however often it was warned of
  std::vector<LoggedLoad> loads;                 // in the order of the log

  int64_t steps() const { return first_step && last_step ? *last_step - *first_step + 1 : 0; }
};

// Reads standard error and output of a trainer, with or without launchers' prefixes. Error{config} for an empty log.
TrainerLog read_trainer_log(std::istream& in, const std::string& name);

// So many starts that end alike are no accident any more: nothing is to be hoped from another one.
inline constexpr int64_t kStartsThatEndAlike = 3;

// not_runnable_deterministically, restart_loop, unprotected_op, or no_evidence_in_log: a log without such lines proves nothing.
Verdict judge_trainer_log(const TrainerLog& log);

}  // namespace dettax
