#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/plan/case.h"
#include "harness/plan/launch_plan.h"
#include "harness/plan/ledger_depth.h"
#include "harness/plan/override.h"

namespace dettax {

// How long and how finely a case is measured.
struct MeasureSettings {
  int warmup_steps_min = 2;  // before a steady-state test may end the warm-up
  int warmup_steps_max = 20;
  int steps_per_block = 0;  // 0: as many as last about block_seconds
  double block_seconds = 0.25;
  int rounds_min = 6;  // a round = every arm twice, mirrored (ABBA)
  int rounds_max = 200;
  double budget_seconds = 20;       // per case, measuring only
  double target_half_width = 0.01;  // of the 95 % interval on the tax, as a ratio
  double confidence = 0.95;
  double case_timeout_seconds = 600;
  double step_timeout_seconds = 60;  // the watchdog: a step or a start that takes longer is a hang
};

struct EvidenceSettings {
  int steps = 3;                        // training steps a ledger covers
  int runs = 2;                         // same-process repetitions of each arm
  LedgerDepth depth = LedgerDepth::op;  // of the arms' ledgers; controls always look op by op
  bool relaunch = true;
  bool other_allocation = true;  // ranks and threads elsewhere, for modes that claim their bits
  bool other_threads = true;     // for modes that claim invariance
  bool other_ranks = true;
  bool controls = true;  // each ordering knob weakened alone, to show that the case would tell
  // Steps from one checkpoint to the next in the first run of each arm that claims its bits, for dettax bisect; 0: none are saved.
  int checkpoint_every = 0;

  // Of each such arm: they lie evenly over the steps, since nobody knows where bits will differ.
  int checkpoints() const { return checkpoint_every == 0 ? 0 : (steps - 1) / checkpoint_every; }
};
inline constexpr int kMostCheckpoints = 16;

// Steps that are recorded op by op, apart from those that are timed.
struct ProfileSettings {
  bool arms = false;           // each deterministic arm against fast
  bool ablate = false;         // each knob of the first deterministic arm, alone and left out
  double budget_seconds = 30;  // of each of these, for running steps
};

// Limits; absent means not judged.
struct Thresholds {
  std::optional<double> max_overhead_ratio;  // det / fast, 1.10 = at most 10 % slower
};

// A suite after all its references were loaded: cases x modes, ready to run.
struct Suite {
  std::string name;
  std::string description;
  std::vector<Case> cases;
  Mode fast;                // the arm that all others are compared with
  std::vector<Mode> modes;  // the deterministic arms
  MeasureSettings measure;
  EvidenceSettings evidence;
  ProfileSettings profile;
  Thresholds thresholds;
  LaunchPlan launch;
  std::string hash;  // over everything above
};

// Where ranks run: a file in configs/clusters/, named by the topology of a case.
struct Cluster {
  std::string name;
  std::string description;
  Topology
      topology;  // threads_per_rank stays 1: a case says it; ranks_per_node 0: as many as the layout needs
};

// Folders with models/, modes/, suites/ ... : the first that exists of $DETTAX_HOME, the source
// tree this was built from, and <prefix>/share/dettax beside the program.
std::string find_home();

// All of these throw Error{config} with `file:line: key: what is wrong; what would be right`, or with
// the override in the place of file and line.
Model load_model(const std::string& name_or_path);
Mode load_mode(const std::string& name_or_path);
Suite load_suite(const std::string& name_or_path, const std::vector<Override>& overrides = {});
// The overrides laid over the suite as dump_suite() writes it, so that cases.*.seed is every case.
Suite with_overrides(const Suite& suite, const std::vector<Override>& overrides);
Cluster load_cluster(const std::string& name_or_path);

// Names that can be given to the loaders, sorted.
std::vector<std::string> list_models();
std::vector<std::string> list_modes();
std::vector<std::string> list_suites();
std::vector<std::string> list_clusters();

// The suite as YAML with every default written out; loading it gives the same suite and the same
// hash.
std::string dump_suite(const Suite& suite);

// Bytes a worker process of this case and mode needs, by part. All ranks of one process together.
struct MemoryEstimate {
  int64_t weights = 0, gradients = 0, optimizer = 0, activations = 0, workspace = 0, process = 0;
  int64_t total() const {
    return weights + gradients + optimizer + activations + workspace + process;
  }
};
MemoryEstimate estimate_memory(const Case& planned, const Mode& mode);

// What a checkpoint of this case takes on the disk, all ranks together: weights and both moments, each once.
int64_t checkpoint_bytes(const Case& planned);

// That times are not those of hardware with this precision, in words; empty where they are.
std::string emulation_note(const Case& planned);
// Why this layout cannot split this model and batch, if it cannot.
std::optional<std::string> layout_refusal(const Case& planned);
// Reason why this case cannot run here and now (unsupported part, does not fit into memory,
// impossible layout), or nothing.
std::optional<std::string> refusal(const Case& planned, const Mode& mode, int64_t available_bytes);

// Precisions in which cases of this backend can run in this build.
std::vector<Precision> usable_precisions(Backend backend);

}  // namespace dettax
