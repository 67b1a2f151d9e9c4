#pragma once

#include <iosfwd>

#include "exporters/json_writer.h"
#include "exporters/outlook.h"

namespace dettax {

// Projected steps with their taxes and parts; the decision with its costs over the tax and its sensitivities. Nothing of what is not there.
void write_outlook_sections(std::ostream& out, const Outlook& outlook);

// The member `outlook` of the chart data: `projections`, a row each; `costs`, by policy over the tax; `tornado`. What is not there is an
// empty list, or null.
void write_outlook_data(JsonWriter& json, const Outlook& outlook);

}  // namespace dettax
