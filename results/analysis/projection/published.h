#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "results/analysis/projection/training_plan.h"

namespace dettax {

// One published step time and the plan it belongs to.
struct PublishedRow {
  std::string table;    // file name without its ending
  size_t row = 0;       // from 1, without the header
  std::string group;    // table and system, and what sets it apart: what an error is reported for
  std::string label;    // model, precision, GPUs, layout
  std::string machine;  // a cluster of the catalog
  std::string system;   // what the row ran on: the machine, unless that describes it only nearly
  TrainingPlan plan;
  double step_seconds = 0;
  bool calibration = false;  // efficiencies were fitted on it: never judged
  std::string left_out;      // why it cannot be projected; empty: it is
};

// All rows of the tables in configs/published that hold step times.
std::vector<PublishedRow> load_published();

namespace published {
std::vector<PublishedRow> megatron_sc21();
std::vector<PublishedRow> seqpar2022();
std::vector<PublishedRow> vtrain(const std::string& table);
std::vector<PublishedRow> dgxc_benchmarking();
std::vector<PublishedRow> megatron_bridge_perf();
std::vector<PublishedRow> torchtitan();
std::string path(const std::string& file);
// `model.tp8.pp4 ...` of a row whose plan is complete.
std::string label(const PublishedRow& row);
}  // namespace published

}  // namespace dettax
