#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/launch/guards.h"
#include "harness/launch/machine.h"
#include "harness/launch/protocol.h"
#include "harness/plan/suite.h"
#include "results/rank_place.h"
#include "results/record.h"

namespace dettax {

// What a machine said before and after a stretch of steps, and what the group used of it.
struct HostLoad {
  MachineSample before, after;
  double cpu_seconds = 0;
};

// What a stretch of steps took.
struct StepsRun {
  std::vector<std::vector<double>> step_time_seconds;  // [rank][step]
  FillTotals fills;                                    // of rank 0
  std::vector<HostLoad> hosts;                         // each machine that the group is on
};

// What came of a run's checkpoints; see Reply.
struct CheckpointsUsed {
  std::vector<std::string> fresh,
      restored;  // of one that was loaded, a table a rank (encode_states)
  std::string not_saved;
};

// The processes of one arm, started with that arm's environment and alive until this goes. Between
// calls they sleep. After any Error the group is broken: it can only be destroyed.
//
// A rank that crashes, hangs or trains to values that are not finite becomes an Error that names
// rank, step and op, of the kind infrastructure, timeout and numeric.
class ArmGroup {
 public:
  virtual ~ArmGroup() = default;
  virtual const ArmSpec& spec() const = 0;
  // Knob or variable -> what runs, as found in the processes after start.
  virtual const std::map<std::string, std::string>& engaged() const = 0;
  virtual StepsRun run_steps(int steps) = 0;
  // The same while every rank records what it does; at most kProfiledStepsMost steps until the traces
  // are taken. The first call runs one step more, before those.
  virtual StepsRun profile_steps(int steps) = 0;
  // What was recorded since the last time, one file a rank in `folder`, which must exist.
  virtual void take_traces(const std::filesystem::path& folder) = 0;
  // Trains `steps` steps from a reset and writes the ledger to `path`. A `stress` other than 0 seeds
  // random delays between threads and between ranks. The file grows while they run (ledger_file.h).
  virtual void write_ledger(uint64_t seed, int steps, const std::filesystem::path& path,
                            uint64_t stress = 0, LedgerDepth depth = LedgerDepth::op) = 0;
  // The same with checkpoints: `run.path` is written, and what run.checkpoints says is loaded and saved.
  virtual CheckpointsUsed write_ledger_with(const request::WriteLedger& run);
  // From now on the group trains under its mode with this knob alone at its fast value.
  virtual void weaken(Knob knob) = 0;
  virtual int64_t memory_peak_bytes() const = 0;       // of the largest process so far
  virtual int64_t process_id() const = 0;              // of rank 0's process
  virtual Fills fills_per_step() const { return {}; }  // mean over the steps run so far
  virtual std::vector<RankPlace> places() const { return {}; }
  // Node, host and cores of every rank in words; the same of two groups: their ranks are in the same
  // places.
  virtual std::string seats() const { return {}; }
};

struct LaunchSettings {
  std::string program = "/proc/self/exe";  // that serves as worker
  std::filesystem::path log_folder;        // takes <name>.log, the output of the processes
  double step_timeout_seconds = 60;
  int interrupt = -1;               // descriptor that turns readable when all is to end; -1: none
  Binding binding = Binding::none;  // of compute threads to cores
};

// How long requests to a group may take, in times that a step may take. A ledger's step fingerprints every op's output; building is also
// the first touch of all memory.
inline constexpr double kLedgerStepAllowance = 4;
inline constexpr double kPrepareAllowance = 2;

class Launcher {
 public:
  virtual ~Launcher() = default;
  // Starts and prepares a group; `name` is for its log. Error when it cannot.
  virtual std::unique_ptr<ArmGroup> start(const ArmSpec& spec, const std::string& name) = 0;
};

// One process a group, whose ranks are threads of it.
std::unique_ptr<Launcher> make_thread_launcher(LaunchSettings settings);

}  // namespace dettax
