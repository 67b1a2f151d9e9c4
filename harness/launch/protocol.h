#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "harness/base/error.h"
#include "harness/launch/guards.h"
#include "harness/launch/rank_placement.h"
#include "harness/plan/case.h"
#include "harness/plan/ledger_depth.h"
#include "harness/train/fill_totals.h"

namespace dettax {

// What a launcher and its workers say to each other: one JSON object a line. Each request gets one
// reply, in order. Both sides carry the version; a worker of another version refuses.
inline constexpr int kProtocolVersion = 1;

// Profiled steps whose records a rank has memory for.
inline constexpr int kProfiledStepsMost = 64;

// What a group of processes runs: the case under one mode. `arm` is the name faults and results go
// by.
struct ArmSpec {
  std::string arm;
  Case planned;
  Mode mode;
  RankPlacement placement = RankPlacement::planned;
};

// Where a run whose ledger is written begins and what it leaves, beside the ledger.
struct CheckpointUse {
  std::string load;  // the checkpoint that it goes on from; empty: a reset
  int from = 0;      // steps that it has done there
  std::vector<std::string>
      leave_out;          // items of it that are not taken: to show that they are missed
  std::string save_into;  // folder of checkpoints; empty: none is saved
  int save_at = 0;        // steps done when it is
  // Or at every multiple of this before the end, none of which the run needs: where one cannot be saved it goes on without, and
  // Reply::not_saved says why. 0: none.
  int save_every = 0;
};

namespace request {
struct Prepare {  // builds every rank's training step and resets it with the case's seed
  ArmSpec spec;
};
struct Steps {
  int count = 0;
};
struct
    WriteLedger {  // reset(seed), then a ledger over `steps` steps, written to `path` as it grows, or
                   // into the reply where that is empty
  uint64_t seed = 0;
  int steps = 0;
  std::string path;
  uint64_t stress = 0;  // seeds delays between threads and ranks; 0: none
  LedgerDepth depth = LedgerDepth::op;
  CheckpointUse checkpoints = {};
};
struct Weaken {  // new training steps under the prepared mode with this knob at its fast value
  std::string knob;
};
struct
    Profile {  // steps whose ops are recorded; at most kProfiledStepsMost until their traces are taken
  int count = 0;
};
struct TakeTraces {};   // of all profiled steps so far
struct FindNonFinite {  // replays from reset(case seed) to the step that was not finite
  int64_t step = 0;
};
struct Exit {};
}  // namespace request
using WorkerRequest =
    std::variant<request::Prepare, request::Steps, request::WriteLedger, request::Weaken,
                 request::Profile, request::TakeTraces, request::FindNonFinite, request::Exit>;

// Fields that a request has no use for stay empty.
struct Reply {
  bool ok = true;
  ErrorKind kind = ErrorKind::internal;  // if not ok
  std::string message;                   // if not ok; of FindNonFinite: what was found
  int64_t step = -1;                     // of a step that was not finite
  std::map<std::string, std::string> engaged;
  std::vector<std::vector<double>> step_time_seconds;  // [rank][step]
  double cpu_seconds = 0;                              // used by the worker during this request
  FillTotals fills;                                    // of rank 0 during this request
  int64_t memory_peak_bytes = 0;
  std::vector<MachineSample> machine;  // of Steps: before and after
  std::string ledger;                  // of WriteLedger without a path: the file's bytes
  // Of WriteLedger that loads a checkpoint, a table a rank (encode_states): what a reset had left, and what
  // was there before the first step.
  std::vector<std::string> fresh_states, restored_states;
  std::string not_saved;            // why checkpoints are missing that the run went on without
  std::vector<std::string> traces;  // of TakeTraces: one a rank, in Chrome's format
  int64_t found_step = -1, found_op = 0;  // of FindNonFinite: the place of what was found
};

std::string encode(const WorkerRequest& value);
std::string encode(const Reply& value);
// Error{internal} for what is no message of this version.
WorkerRequest decode_request(const std::string& line);
Reply decode_reply(const std::string& line);

}  // namespace dettax
