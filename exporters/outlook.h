#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "exporters/metrics.h"
#include "exporters/text_layout.h"
#include "results/analysis/decision/decision.h"
#include "results/analysis/projection/projected_step.h"

namespace dettax {

struct DecisionOutlook {
  DecisionInputs inputs;
  Decision decision;
  std::vector<SizeRow> sizes;  // where nobody said how many GPUs; then they are the answer
};

// What is expected rather than measured: projected steps, and whether determinism pays there.
struct Outlook {
  std::vector<ProjectedStep> projections;
  std::optional<DecisionOutlook> decision;
};

// Amounts as people read them: $1.23 M.
std::string format_money(double amount);

// Inputs of a tornado that are shown, those that decide most.
inline constexpr size_t kTornadoRows = 8;

// Tables of an outlook, the first row their header. All of one decision or of all projections.
Grid projection_grid(const std::vector<ProjectedStep>& projections);
Grid projected_cause_grid(const ProjectedStep& projection);
Grid policy_grid(const Decision& decision);
Grid threshold_grid(const Decision& decision);
Grid tornado_grid(const Decision& decision);
Grid size_grid(const std::vector<SizeRow>& sizes);
Grid input_grid(const DecisionInputs& inputs);
// A sentence each: the cheapest knobs or why none are known, and what was asked for and not given.
std::vector<std::string> decision_words(const DecisionOutlook& outlook);

// As gauges, in the order of outlook_metric_families().
const std::vector<MetricFamily>& outlook_metric_families();
std::vector<std::vector<Sample>> outlook_samples(const Outlook& outlook);

}  // namespace dettax
