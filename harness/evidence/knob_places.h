#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/plan/case.h"
#include "harness/plan/knobs.h"

namespace dettax {

// Where in a step each knob acts, as the ledger's paths name it. An op that comes with a sum or a variant of its own gets its row here.

// Whether a difference that begins at this path of a ledger is of this knob's making. On a device a library chooses the order of every
// product's sum by the knob gemm, on a CPU only weight gradients have a choice.
bool acts_at(Knob knob, std::string_view path, Backend backend = Backend::cpu);

// The ops of a knob, as "phase/op", or "op" where it is the same in every phase; "all" for the schedule.
std::vector<std::string> ops_of(Knob knob);

}  // namespace dettax
