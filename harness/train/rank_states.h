#pragma once

#include <string>
#include <vector>

#include "harness/comm/communicator.h"
#include "harness/train/state.h"
#include "harness/train/train_step.h"

namespace dettax {

// A text of each rank, on every rank. Collective.
std::vector<std::string> gather_texts(Communicator& ranks, const std::string& own);

// What this rank's state is now.
std::vector<StateEntry> describe_state(TrainStep& train);
// That of each rank, on every rank. Collective.
std::vector<std::vector<StateEntry>> gather_states(Communicator& ranks,
                                                   const std::vector<StateEntry>& own);

}  // namespace dettax
