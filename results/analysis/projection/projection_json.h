#pragma once

#include <string>
#include <vector>

#include "results/analysis/projection/sweep.h"
#include "results/analysis/projection/tax.h"
#include "results/analysis/projection/validate.h"

namespace dettax {

struct ProjectedCase {
  TrainingPlan plan;
  std::string mode;
  ProjectedTax tax;
};

// Layout as the simulator has it: dp16.tp8.pp4.vp5, then the schedule where it is none of the two usual ones.
std::string plan_layout_text(const TrainingPlan& plan);

// JSON texts, schema_version 1, units in the keys.
std::string projections_json(const Hardware& machine, const std::vector<ProjectedCase>& cases);
std::string sweep_json(const Hardware& machine, const Sweep& sweep);
std::string validation_json(const Validation& validation);

}  // namespace dettax
