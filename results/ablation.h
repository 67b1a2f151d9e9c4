#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "results/estimate.h"

namespace dettax {

// Time by one mechanism (key_of(Mechanism) in results/attribution.h, or "unmapped") in one step, mean over steps and ranks.
struct MechanismTime {
  std::string mechanism;
  double fast_seconds = 0, deterministic_seconds = 0, delta_seconds = 0;
};
// The same under one path of ranges (phase/layer/op).
struct PathTime {
  std::string path, mechanism;
  double fast_seconds = 0, deterministic_seconds = 0, delta_seconds = 0;
};

// Where the steps of a deterministic arm differ from fast's, by steps that were recorded. They are none of those that were timed.
struct ArmProfile {
  std::string arm;
  int64_t ranks = 0, steps = 0;
  double fast_seconds = 0, deterministic_seconds = 0;  // recorded steps, mean over steps and ranks
  std::vector<MechanismTime> mechanisms;               // they add up to the difference
  std::vector<PathTime> paths;                         // those with the largest differences
  double distortion_seconds = 0;  // the difference without recording less that with it
  // Step time while recording over step time without, in one run.
  std::optional<Estimate> fast_recording_ratio, recording_ratio;
  std::vector<std::string> notes;  // what a reader has to know
  std::string refusal;             // why nothing was attributed; empty if it was
};

// What one knob costs, or what is left when all knobs have been counted.
struct KnobCost {
  std::string knob;  // "interaction": of three knobs and more; "total": all together
  std::string part;  // ordering, framework, opportunity; empty where it is of no one part
  // A step's time with the knob less without, mean of first-in (into fast) and last-in (out of the mode); without recording, over rounds.
  std::optional<Estimate> seconds;
  double first_in_seconds = 0, last_in_seconds = 0;
  std::vector<double> cells;     // by Ablation::mechanisms, from recorded steps
  double recording_seconds = 0;  // seconds less the cells: what recording itself changed, and noise
};

// What its cells and recording_seconds add up to.
double total_seconds(const KnobCost& cost);

// The knobs that are enough for equal bits.
struct SufficientSet {
  std::vector<std::string> knobs;
  bool reproducible = false;  // runs of it agreed
  int64_t runs = 0;
  std::optional<Estimate> overhead_ratio;  // against fast
  std::string reason;                      // why there is none, or what was not shown
};

// Knobs against mechanisms. Rows add up to `total`, and so do columns, each row by its cells and recording_seconds.
struct Ablation {
  std::string arm;
  int64_t rounds = 0;
  std::vector<std::string> mechanisms;  // columns
  std::vector<KnobCost> knobs;          // largest first
  KnobCost interaction, total;
  SufficientSet sufficient;
  std::vector<std::string> notes;  // what a reader has to know
  std::string refusal;             // why there is no matrix; empty if there is
};

}  // namespace dettax
