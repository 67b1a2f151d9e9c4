#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/plan/suite.h"
#include "results/ablation.h"
#include "results/kernel_suite.h"
#include "results/rank_place.h"

namespace dettax {

inline constexpr int kRecordSchemaVersion = 1;

enum class Status { pass, fail, inconclusive, skipped, error };
const char* to_string(Status status);

// Machine and software a record was made on; compare refuses pairs whose provenance differs.
struct Environment {
  std::string tool_version, git_commit, compiler, build_type;
  std::string host, cpu_model, kernel, simd_target;
  int64_t cores = 0, memory_bytes = 0;
  std::map<std::string, std::string> variables;  // by allow-list
  std::string started_at;                        // UTC, ISO 8601
};

// One block of steps of one arm.
struct Block {
  int round = 0;
  int position = 0;          // order within the whole case
  double start_seconds = 0;  // since the first block of the case
  bool repeated = false;     // guards were over their limit and the round was run again: kept here,
                             // out of all estimates
  std::vector<std::vector<double>> step_time_seconds;  // [rank][step], raw, by the host's clock
  std::vector<std::vector<double>>
      device_step_time_seconds;  // likewise, by the device's; empty where it has no clock of its own
  double steal_ratio = 0;  // CPU time stolen by the hypervisor, of the block's wall time and cores
  double other_load_ratio = 0;  // CPU time of other processes, likewise
  double pressure_ratio =
      0;  // share of the block in which some task waited for a CPU (PSI), where the kernel tells
  double frequency_hz = 0;  // mean over cores, 0 if unknown
};

// A variant that stands in place of the fast arm's, and the ops it acts in.
struct VariantChange {
  std::string knob, fast, here;
  std::vector<std::string> ops;
};

// Buffers filled before use, a step and a rank.
struct Fills {
  int64_t count = 0;
  int64_t bytes = 0;
  double seconds = 0;
};

struct ArmResult {
  std::string arm;   // fast, control, or the mode's name
  std::string mode;  // name of the mode
  std::string mode_hash;
  bool claims_reproducible = false;          // its mode; evidence is demanded of it
  std::map<std::string, std::string> knobs;  // as asked
  // As the worker found them after start: knob or variable -> what runs. A knob's value is in the
  // words of `knobs`; empty where the knob has nothing to act on (moe in a dense model). A value
  // other than the one asked for is a mode that did not engage.
  std::map<std::string, std::string> engaged;
  std::map<std::string, std::string> environment;  // what the mode set
  // Of these, what stood there before and was replaced; all others were not set.
  std::map<std::string, std::string> environment_before;
  std::vector<VariantChange> changed;
  Fills fills_per_step;
  std::vector<double> warmup_step_time_seconds;  // left out of everything else
  std::vector<Block> blocks;
  std::optional<Estimate> step_time_seconds;  // median over blocks
  double tokens_per_second = 0;
  int64_t memory_peak_bytes = 0;  // of the worker process
  int64_t memory_estimate_bytes = 0;
  std::string failure_code;  // of reason.h if this arm broke (non_finite, hang, ...); empty if it
                             // ran through
  std::string failure;       // with rank, step and op
  std::vector<RankPlace> places;  // index = rank; empty if it never started
};

// Deterministic arm against fast.
struct Tax {
  std::string arm;
  Estimate overhead_ratio;                // det / fast, paired; 1 = no cost
  std::optional<Estimate> control_ratio;  // control / fast from the same rounds
  // Same scale: smallest ratio that this case could tell from 1, by the larger spread of arm and
  // control.
  double min_detectable_overhead_ratio = 1;
  bool published =
      false;  // false: evidence is missing or against it, or none is claimed; then it is
              // no tax
  double drift_ratio_per_hour = 0;    // trend of the fast arm over the case
  std::vector<std::string> warnings;  // drift, noise, other load: what spoils the number
};

// Two arms that differ in one knob alone: what it costs.
struct Contrast {
  std::string arm, against;
  std::string knob, value, against_value;
  Estimate ratio;             // arm / against, paired
  Estimate seconds_per_step;  // arm - against
  std::string bits;           // equal | differ | not compared
};

// Evidence that an arm's bits agree (or, for fast, that they can differ).
struct ScopeEvidence {
  std::string scope;  // same_process | relaunch | other_allocation | restart_replay | other_threads
                      // | other_ranks
  bool tested = false;
  bool equal = false;
  int64_t compared = 0;  // fingerprints
  int64_t runs = 0;
  std::string first_difference;     // step, rank, path, tensor: in words; empty if equal
  std::string first_difference_op;  // path alone
  std::string cause;                // class of the difference: "collective order" and the like
  std::string advice;               // what is to be set against it
};
// Whether ranks that are copies of each other held equal bits in one run.
struct RankAgreement {
  bool tested = false;
  bool equal = false;
  int64_t compared = 0;
  std::string first_difference;
};
struct ArmEvidence {
  std::string arm;
  bool reproducible = false;  // every tested scope is equal, at least same_process was, and ranks
                              // do not disagree
  std::vector<ScopeEvidence> scopes;
  std::string ledger_digest;  // of the first run
  std::string ledger_file;    // beside the record
  RankAgreement ranks;
};
// A deterministic arm with one ordering knob at its fast value, put through the same comparison of
// runs as the arm itself: whether the case would have shown it.
enum class ControlStatus {
  caught,     // its runs differed, first at an op that the knob acts on
  misplaced,  // they differed, but first at another op
  not_shown,  // they did not, or could not
  not_run,
};
const char* to_string(ControlStatus status);
struct KnobControl {
  std::string arm;
  std::string knob;
  ControlStatus status = ControlStatus::not_run;
  int64_t runs = 0;      // made under stress
  std::string first_op;  // path of the first difference; empty if there was none
  std::string reason;    // why it was not shown, not run or misplaced; empty if caught
};
struct Evidence {
  std::vector<ArmEvidence> arms;
  bool fast_differed = false;
  std::string blindness;  // why the comparison could not have shown a difference, or that there is
                          // nothing to pay for; empty if it could
  std::vector<KnobControl> controls;
};

struct Verdict {
  Status status = Status::error;
  std::string reason_code;               // closed list in results/reason.h
  std::string reason;                    // a sentence
  std::optional<double> seconds_needed;  // to resolve an inconclusive one
  int exit_code = 70;
};

struct Record {
  int schema_version = kRecordSchemaVersion;
  std::string run_id, suite, suite_hash, case_id;
  Case planned;
  Environment environment;
  std::vector<ArmResult> arms;
  std::vector<Tax> taxes;
  std::vector<Contrast> contrasts;
  Evidence evidence;
  std::vector<ArmProfile> profiles;    // of deterministic arms against fast; empty unless profiled
  std::optional<Ablation> ablation;    // of the first deterministic arm; nothing unless asked for
  std::optional<KernelSuite> kernels;  // of its shape, each alone; nothing unless asked for
  Verdict verdict;
  double duration_seconds = 0;
  std::string
      precision_note;  // that the precision is emulated; empty otherwise. Then speed counts for nothing
};

// What the record has of an arm; null if it has none.
const ArmResult* find_arm(const Record& record, std::string_view arm);
const ArmEvidence* find_evidence(const Record& record, std::string_view arm);
// Whether it has the arm and its mode claims to reproduce its bits.
bool claims(const Record& record, std::string_view arm);

}  // namespace dettax
