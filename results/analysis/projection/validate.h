#pragma once

#include <optional>

#include "results/analysis/projection/error_summary.h"
#include "results/analysis/projection/hardware.h"
#include "results/analysis/projection/published.h"

namespace dettax {

struct Judged {
  PublishedRow row;
  double projected_seconds = 0;
  double error_ratio() const { return projected_seconds / row.step_seconds - 1; }
};

// Errors over the rows of one group that took no part in the fit.
struct GroupError {
  std::string group;
  int rows = 0;
  ErrorSummary errors;
  Judged worst;
  bool system_fitted = false;  // rows of the same machine took part in the fit
  // What the mean absolute error should stay under: 5 % where rows of the machine took part in the fit, else 10 %.
  double limit() const { return system_fitted ? 0.05 : 0.10; }
  bool within_limit() const { return errors.mean_absolute <= limit(); }
};

struct Validation {
  std::vector<GroupError> groups;
  std::vector<Judged> calibration;  // listed, never judged
  std::vector<PublishedRow> left_out;
  std::vector<Judged> judged;
  int within_limit() const;    // how many groups are
  GroupError fitted, foreign;  // over all groups whose system took part, and all others
};

// Projects every row and compares.
Validation validate(const std::vector<PublishedRow>& rows, const Calibration& calibration);

struct Fit {
  Calibration calibration;
  double mean_absolute = 0;  // over the calibration rows
  int projections = 0;       // how many were made
};
// Fits the efficiencies to the calibration rows alone, from `start` on: a pattern search on their mean squared log error.
Fit fit_calibration(const std::vector<PublishedRow>& rows, const Calibration& start);

}  // namespace dettax
