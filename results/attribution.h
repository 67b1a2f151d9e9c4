#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "results/record.h"

namespace dettax {

// By what a piece of a step's time was taken. Times of one step add up over mechanisms.
enum class Mechanism : uint8_t {
  compute,
  memory_fill,
  communication_wait,      // exposed: for the last rank to arrive
  communication_transfer,  // exposed: after it
  communication_unsplit,   // exposed: other ranks' traces, or a common clock, are missing
  copy,
  idle_host,            // the host had not yet launched the next work
  idle_allocation,      // likewise, within an allocation
  idle_synchronize,     // likewise, within a wait for the device
  idle_launch_call,     // within the call that launches it
  idle_launch_latency,  // from the call to the device
  idle_gap,             // launched in time, the device had not begun it
  profiler,             // what profiling itself took
};
inline constexpr int kMechanismCount = static_cast<int>(Mechanism::profiler) + 1;

// "compute", "exposed communication, waiting", ...: for people; and for JSON: "compute", "exposed_comm.wait", ...
std::string_view words_of(Mechanism mechanism);
std::string_view key_of(Mechanism mechanism);

// A part of both arms' step time. Times are means over steps and ranks.
struct AttributedTime {
  double fast_seconds = 0, deterministic_seconds = 0, delta_seconds = 0;
  std::optional<Estimate>
      delta;  // with its interval over steps; nothing with fewer than two steps in an arm
};

enum class KeyMatch { both, fast_only, deterministic_only };
std::string_view key_of(KeyMatch match);

// Time under one key by one mechanism.
struct AttributionRow {
  std::string path;                // empty: unmapped, no range was open where the work was launched
  std::optional<int64_t> ordinal;  // nothing: all occurrences together
  Mechanism mechanism = Mechanism::compute;
  AttributedTime time;
  double share_of_delta = 0;  // 0 if there is no difference at all
  double fast_busy_seconds = 0,
         deterministic_busy_seconds = 0;           // of the work itself, hidden or not
  double hidden_delta_seconds = 0;                 // busy difference less owned difference
  double fast_count = 0, deterministic_count = 0;  // pieces of work a step and rank
  KeyMatch match = KeyMatch::both;                 // of the key's work, whatever its mechanism
  std::string fast_work, deterministic_work;       // the longest piece under this key
};

struct MechanismRow {
  Mechanism mechanism = Mechanism::compute;
  AttributedTime time;
  double fast_count = 0, deterministic_count = 0;
};

// One arm's traces.
struct ProfiledArm {
  int64_t ranks = 0, steps = 0;  // steps that all ranks have complete
  double step_seconds = 0;
  double unmapped_ratio = 0;                    // of step time: work without a key
  int64_t launches = 0, launches_answered = 0;  // of the whole capture
};

// Where the difference between two arms' step times comes from. The rows add up to delta, and so do mechanisms and unmapped; whoever
// makes an Attribution has checked it in whole nanoseconds.
struct Attribution {
  ProfiledArm fast, deterministic;
  AttributedTime step;
  std::vector<MechanismRow> mechanisms;  // mapped time alone, largest difference first
  AttributedTime unmapped;               // work without a key
  std::vector<AttributionRow> rows;      // largest difference first
  // deterministic - fast outside of profiling, less the same inside; nothing if the outside was not told.
  std::optional<double> distortion_seconds;
  std::vector<std::string> notes;   // what a reader has to know of the traces
  std::vector<std::string> advice;  // what to turn against what
};

// Strict JSON, keys by units; times by shortest round-trip.
std::string to_json(const Attribution& attribution);

}  // namespace dettax
