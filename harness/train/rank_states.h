#pragma once

#include <string>
#include <vector>

#include "harness/comm/communicator.h"
#include "harness/train/state.h"
#include "harness/train/train_step.h"

namespace dettax {

// A text of each rank, on every rank. Collective.
std::vector<std::string> gather_texts(Communicator& ranks, const std::string& own);

// A table of state as text, to be sent, and back; Error{internal} for what is none. Every rank reads those of all: no JSON.
std::string encode_states(const std::vector<StateEntry>& entries);
std::vector<StateEntry> decode_states(const std::string& text);

// What this rank's state is now.
std::vector<StateEntry> describe_state(TrainStep& train);
// That of each rank, on every rank. Collective.
std::vector<std::vector<StateEntry>> gather_states(Communicator& ranks,
                                                   const std::vector<StateEntry>& own);

}  // namespace dettax
