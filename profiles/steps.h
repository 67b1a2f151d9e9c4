#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiles/trace.h"

namespace dettax {

// A stretch of time that is attributed as one step. Windows of one trace do not overlap.
struct StepWindow {
  int64_t index = 0;
  int64_t start_ns = 0, end_ns = 0;
  int64_t launches = 0;    // of kernels and graphs, made within the step
  int64_t answered = 0;    // of those, with timed work of the device
  std::string incomplete;  // why it cannot be attributed; empty if it can
  int64_t length_ns() const { return end_ns - start_ns; }
};

// The steps of a trace, in order.
// On a device step n runs from its first work to the first work of step n + 1; a piece of work belongs to the step that its launch was
// made in. A step is incomplete if a kernel or graph it launched left no timed work, if work in its time has no launch though it names
// one, or if its begin or end are not known: the last step of a capture has no end.
// On the host step n runs from its mark to the next one, or to its own end if it is the last.
// A trace without marks is one step, from first to last work, of index -1.
std::vector<StepWindow> step_windows(const Trace& trace);

// Whether this call starts a kernel or a graph, which leaves work on the device in any case (a copy of nothing does not).
bool starts_kernels(const Trace& trace, const Span& call);

}  // namespace dettax
