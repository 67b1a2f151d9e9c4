#pragma once

#include <iosfwd>

#include "profiles/trace.h"

namespace dettax {

// Writes a trace in Kineto's dialect of Chrome's JSON, for Perfetto, speedscope and HTA (Holistic Trace Analysis), and for read_kineto,
// which gives the same spans, paths, marks and losses back.
//
// What other tools stumble over is kept away from them:
// - times are relative to baseTimeNanoseconds, with all digits; the rank stands in front of the events, behind a space;
// - no stream is 0 (HTA leaves those out): a device's stream 0 becomes 7, CUDA's default, or the next free one;
// - names of communication begin with "nccl", those of fills by copy engines with "Memset": HTA tells kinds by name. The real name is in
//   the event's "name" argument where it differs;
// - every piece of work has a launch on the host. A trace of the host has none, so that each gets one of no length, called
//   dettaxHostOp; its threads appear as streams from 7 on, and a last ProfilerStep of no length closes the last step, which HTA drops.
void write_chrome_trace(std::ostream& out, const Trace& trace);

}  // namespace dettax
