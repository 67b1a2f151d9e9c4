#pragma once

#include <vector>

#include "exporters/json_writer.h"
#include "results/record.h"

namespace dettax {

// Whether there is something to draw.
bool has_mechanisms(const ArmProfile& profile);
bool has_matrix(const Ablation& ablation);
// A step of the fast arm; 0 if it has no time.
double fast_seconds(const Record& record);

// The member `causes` of the chart data, by a case's place in `records`: `profiles`, of each profiled arm the mechanisms that take time
// with their differences; `ablation`, the mechanisms that take time and a row a knob, with one for what knobs do together and a last one
// for all. All in seconds a step.
void write_cause_data(JsonWriter& json, const std::vector<const Record*>& records);

}  // namespace dettax
