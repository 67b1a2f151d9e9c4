#pragma once

#include <map>
#include <string>
#include <vector>

#include "results/record.h"

namespace dettax {

// What a quantity of a case was in the runs of a baseline; logarithms, so that it is two-sided by nature.
struct BaselineRow {
  std::string case_id, arm;
  std::string quantity;  // step_time_seconds | overhead_ratio | memory_peak_bytes
  double log_mean = 0;
  double log_spread = 0;  // standard deviation between runs (and nodes), measuring error included
  int64_t count = 0;      // runs
};

// The performance of a platform, as several runs of it measured it.
struct Baseline {
  std::string platform;                           // key: processor, cores, vector instructions
  std::map<std::string, std::string> provenance;  // all that a run must have in common with it
  std::map<std::string, std::string> cases;  // id -> hash of all that the case and its arms are
  std::vector<std::string> runs;
  std::vector<BaselineRow> rows;
};

std::string platform_of(const Environment& environment);  // fit for a file name
// Of all that a case and its arms are, beyond its name.
std::string case_hash(const Record& record);

// From records of one platform and provenance; Error{config} that names the difference if they have not. A row needs two runs or more,
// since nobody knows the spread of one: Error{config} if no row has them. Cases whose verdict is an error, a skip or void are left
// out.
Baseline make_baseline(const std::vector<Record>& records);

struct BaselineCheckRow {
  std::string node, case_id, arm, quantity;
  double ratio = 1;            // now / baseline
  double tolerance_ratio = 0;  // what a change must exceed, on either side, as a ratio - 1
  Status status = Status::error;
  std::string words;
};
struct BaselineSettings {
  double false_alarm_ratio = 0.01;  // of a check of unchanged performance, over all its rows
  double least_change_ratio = 0.02;
  double most_tolerance_ratio = 0.25;  // a wider tolerance shows nothing: inconclusive
  bool force = false;                  // compare although provenance differs
};
struct BaselineCheck {
  std::vector<std::string> provenance_differences;  // not empty: refused unless forced
  std::vector<BaselineCheckRow> rows;
  int exit_code = 70;
};
// The tolerance of a row is the prediction interval of one more run: Student's quantile with count - 1 degrees of freedom, at
// false_alarm_ratio over the number of rows, times sqrt(spread^2 (1 + 1/count) + max(0, own error^2 - spread^2)).
BaselineCheck check_baseline(const Baseline& baseline, const std::vector<Record>& records,
                             const BaselineSettings& settings);

std::string baseline_json(const Baseline& baseline);
Baseline parse_baseline(const std::string& json, const std::string& name);  // Error{config}

}  // namespace dettax
