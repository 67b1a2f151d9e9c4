#pragma once

#include <iosfwd>
#include <vector>

#include "exporters/outlook.h"
#include "results/record.h"

namespace dettax {

// Whether the case has step times to draw.
bool has_step_times(const Record& record);

// What report.js draws, as one JSON object: `forest`, a row a tax (or a case without one); `steps`, per case that has step times the
// counts of each arm in bins they share; `causes`, per case that was profiled or whose knobs were turned, seconds a step by mechanism
// and by knob (exporters/html/cause_data.h). A case is known by its place in `records`.
// With an outlook, also what outlook_section.h says.
void write_chart_data(std::ostream& out, const std::vector<const Record*>& records,
                      const Outlook* outlook);

}  // namespace dettax
