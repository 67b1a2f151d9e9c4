#pragma once

#include "profiles/trace.h"

namespace dettax {

// Gives each call and each piece of work its path and ordinal, from the ranges that were open on the thread that launched it.
//
// A path is the names of the annotations that were open, outermost first, and behind them the outermost operation; ranges that mark
// steps are no part of it. A thread without an annotation of its own (PyTorch's backward pass) takes those open on the main thread at
// that time. The ordinal counts how often the range had been entered within the step, so that two pieces of work under one occurrence
// of an operation share a key: where a mode replaces one kernel by two, both stand under the key of the one.
// Work under an operation that communicates becomes communication, whatever its name. Without a launch or an open range a span keeps
// path 0.
void assign_paths(Trace& trace);

// For each span the index of the launch with its correlation, or -1. Of several the first.
std::vector<int64_t> launches_of_work(const Trace& trace);

}  // namespace dettax
