#include "profiles/idle.h"

namespace dettax {

IdleCauses::IdleCauses(const Trace& trace, const std::vector<int64_t>& launches)
    : trace_(trace), launches_(launches), threads_(trace.streams.size()) {
  for (const Span& span : trace.spans) {
    Thread& thread = threads_[span.stream];
    if (span.category == Category::synchronize) thread.synchronize.add(span.start_ns, span.end_ns);
    if (span.category == Category::allocate) thread.allocate.add(span.start_ns, span.end_ns);
    if (span.category == Category::profiler) profiler_.add(span.start_ns, span.end_ns);
  }
}

void IdleCauses::host_pieces(int64_t start_ns, int64_t end_ns, uint32_t thread,
                             std::vector<IdlePiece>& pieces) const {
  std::vector<IntervalSet::Interval> left{{start_ns, end_ns}};
  const auto take_as = [&](Mechanism cause) {
    return [&pieces, cause](int64_t start, int64_t end) { pieces.push_back({start, end, cause}); };
  };
  threads_[thread].synchronize.cut_out_of(left, take_as(Mechanism::idle_synchronize));
  profiler_.cut_out_of(left, take_as(Mechanism::profiler));
  threads_[thread].allocate.cut_out_of(left, take_as(Mechanism::idle_allocation));
  for (const auto& piece : left) pieces.push_back({piece.start, piece.end, Mechanism::idle_host});
}

std::vector<IdlePiece> IdleCauses::pieces(int64_t start_ns, int64_t end_ns, size_t next) const {
  std::vector<IdlePiece> pieces;
  if (launches_[next] < 0) {
    host_pieces(start_ns, end_ns, trace_.spans[next].stream, pieces);
    return pieces;
  }
  const Span& call = trace_.spans[static_cast<size_t>(launches_[next])];
  if (start_ns < call.start_ns)
    host_pieces(start_ns, std::min(end_ns, call.start_ns), call.stream, pieces);
  const int64_t in_call = std::max(start_ns, call.start_ns),
                call_end = std::min(end_ns, call.end_ns);
  if (in_call < call_end) pieces.push_back({in_call, call_end, Mechanism::idle_launch_call});
  // Given to the device before it fell idle: something on the device, not the way there, held the work back.
  const bool given_in_time = call.end_ns <= start_ns;
  const int64_t after = std::max(start_ns, call.end_ns);
  if (after < end_ns)
    pieces.push_back(
        {after, end_ns, given_in_time ? Mechanism::idle_gap : Mechanism::idle_launch_latency});
  return pieces;
}

}  // namespace dettax
