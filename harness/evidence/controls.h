#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/plan/case.h"

namespace dettax {

// Positive controls: a deterministic mode with one ordering knob at its fast value must be seen to
// differ between runs, at an op that this knob acts on. Otherwise equal runs of the mode itself
// prove nothing about that knob.

// Ordering knobs that this case has something for, as the catalog orders them.
std::vector<Knob> control_knobs(const Case& planned);

// The mode with this knob alone at its fast value, under a name and a hash of its own.
Mode weakened(const Mode& mode, Knob knob);

// Why runs of the weakened mode cannot differ in this case, where that is known beforehand.
std::optional<std::string> why_not_shown(const Case& planned, const Mode& mode, Knob knob);

}  // namespace dettax
