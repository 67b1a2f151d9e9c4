#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "results/analysis/projection/predict.h"
#include "results/analysis/projection/projection_json.h"
#include "results/analysis/projection/sweep.h"
#include "results/analysis/projection/validate.h"

namespace dettax {

// What `dettax project` prints for people.
void write_projections(std::ostream& out, const Hardware& machine,
                       const std::vector<ProjectedCase>& cases);
void write_sweep(std::ostream& out, const Hardware& machine, const Sweep& sweep);
void write_validation(std::ostream& out, const Validation& validation);
void write_prediction(std::ostream& out, const Hardware& machine,
                      const LayoutPrediction& prediction);
void write_fit(std::ostream& out, const Fit& fit);

}  // namespace dettax
