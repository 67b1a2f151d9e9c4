#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiles/trace.h"

namespace dettax {

// What a trace holds, before anything is attributed.
struct TraceSummary {
  int64_t work = 0;                    // pieces with times
  int64_t untimed = 0;                 // pieces without
  int64_t start_ns = 0, end_ns = 0;    // of the work
  int64_t busy_ns = 0;                 // in which at least one piece ran
  int64_t busy_sum_ns = 0;             // lengths of all pieces together
  int64_t same_stream_overlap_ns = 0;  // in which a stream ran more than one piece
  int64_t launches = 0, answered = 0;  // of kernels and graphs; those with timed work
  int64_t communications = 0;
  int64_t devices = 0;  // that did the work
};
TraceSummary summarize(const Trace& trace);

// What a reader of this trace's numbers has to know, a line each; empty for a trace without fault.
std::vector<std::string> notes_of(const Trace& trace, const TraceSummary& summary);

// Throws Error{infrastructure} if no number may be made of this trace: records were lost that no step can be named for, or it holds
// no work of the device at all.
void refuse_if_unusable(const Trace& trace, const TraceSummary& summary);

}  // namespace dettax
