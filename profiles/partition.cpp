#include "profiles/partition.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "harness/base/error.h"
#include "profiles/idle.h"
#include "profiles/keys.h"
#include "profiles/sweep.h"

namespace dettax {
namespace {

Mechanism mechanism_of(Category category) {
  switch (category) {
    case Category::fill:
    case Category::memset:
      return Mechanism::memory_fill;
    case Category::copy:
      return Mechanism::copy;
    case Category::communication:
      return Mechanism::communication_unsplit;
    default:
      return Mechanism::compute;
  }
}

bool same_key(const Cell& a, const Cell& b) {
  return a.path == b.path && a.ordinal == b.ordinal && a.mechanism == b.mechanism;
}

// Cells of equal key become one.
void merge(std::vector<Cell>& cells) {
  std::stable_sort(cells.begin(), cells.end(), [](const Cell& a, const Cell& b) {
    return std::tie(a.path, a.ordinal, a.mechanism) < std::tie(b.path, b.ordinal, b.mechanism);
  });
  size_t kept = 0;
  for (size_t i = 1; i < cells.size(); ++i) {
    Cell& into = cells[kept];
    const Cell& from = cells[i];
    if (!same_key(into, from)) {
      cells[++kept] = from;
      continue;
    }
    into.owned_ns += from.owned_ns;
    into.busy_ns += from.busy_ns;
    into.count += from.count;
    if (from.longest_ns > into.longest_ns) {
      into.longest_ns = from.longest_ns;
      into.longest_name = from.longest_name;
    }
  }
  if (!cells.empty()) cells.resize(kept + 1);
}

class Partitioner {
 public:
  Partitioner(const Trace& trace, const std::vector<StepWindow>& windows,
              const LastArrivals& last_arrivals)
      : trace_(trace),
        last_arrivals_(last_arrivals),
        launches_(launches_of_work(trace)),
        idle_(trace, launches_) {
    for (const StepWindow& window : windows) {
      if (window.incomplete.empty()) steps_.push_back({window, {}});
    }
  }

  std::vector<StepPartition> run() {
    std::vector<uint32_t> work;
    for (size_t i = 0; i < trace_.spans.size(); ++i) {
      if (is_work(trace_.spans[i].category)) work.push_back(static_cast<uint32_t>(i));
    }
    sweep(
        trace_, work, [&](int64_t start, int64_t end, uint32_t owner) { own(start, end, owner); },
        [&](int64_t start, int64_t end, uint32_t next) { name_idle(start, end, next); });
    if (!work.empty()) name_ends(work);
    for (const uint32_t index : work) count(index);
    for (StepPartition& step : steps_) {
      merge(step.cells);
      check_partition(step);
    }
    return std::move(steps_);
  }

 private:
  // The part of [start, end) that lies in each step.
  template <typename Take>
  void in_steps(int64_t start_ns, int64_t end_ns, const Take& take) {
    auto step = std::upper_bound(
        steps_.begin(), steps_.end(), start_ns,
        [](int64_t time, const StepPartition& s) { return time < s.window.end_ns; });
    for (; step != steps_.end() && step->window.start_ns < end_ns; ++step) {
      const int64_t from = std::max(start_ns, step->window.start_ns),
                    to = std::min(end_ns, step->window.end_ns);
      if (from < to) take(*step, from, to);
    }
  }

  // The part before the last rank's arrival, and the rest.
  template <typename Take>
  void by_arrival(uint32_t index, int64_t start_ns, int64_t end_ns, const Take& take) const {
    const Mechanism mechanism = mechanism_of(trace_.spans[index].category);
    const int64_t last = last_arrivals_.empty() ? kNoOtherRank : last_arrivals_[index];
    if (mechanism != Mechanism::communication_unsplit || last == kNoOtherRank)
      return take(start_ns, end_ns, mechanism);
    const int64_t cut = std::clamp(last, start_ns, end_ns);
    if (start_ns < cut) take(start_ns, cut, Mechanism::communication_wait);
    if (cut < end_ns || start_ns == end_ns) take(cut, end_ns, Mechanism::communication_transfer);
  }

  static void add(StepPartition& step, const Span& span, Mechanism mechanism, int64_t owned_ns) {
    step.cells.push_back({span.path, span.ordinal, mechanism, owned_ns, 0, 0, 0, 0});
  }

  void own(int64_t start_ns, int64_t end_ns, uint32_t owner) {
    in_steps(start_ns, end_ns, [&](StepPartition& step, int64_t from, int64_t to) {
      by_arrival(owner, from, to, [&](int64_t a, int64_t b, Mechanism mechanism) {
        add(step, trace_.spans[owner], mechanism, b - a);
      });
    });
  }

  void name_idle(int64_t start_ns, int64_t end_ns, uint32_t next) {
    for (const IdlePiece& piece : idle_.pieces(start_ns, end_ns, next)) {
      in_steps(piece.start_ns, piece.end_ns, [&](StepPartition& step, int64_t from, int64_t to) {
        add(step, trace_.spans[next], piece.cause, to - from);
      });
    }
  }

  // Steps of the host may begin before any work and end after all of it.
  void name_ends(const std::vector<uint32_t>& work) {
    int64_t last = trace_.spans[work.front()].end_ns;
    uint32_t last_index = work.front();
    for (const uint32_t index : work) {
      if (trace_.spans[index].end_ns <= last) continue;
      last = trace_.spans[index].end_ns;
      last_index = index;
    }
    if (steps_.empty()) return;
    const int64_t first = trace_.spans[work.front()].start_ns;
    if (steps_.front().window.start_ns < first)
      name_idle(steps_.front().window.start_ns, first, work.front());
    if (steps_.back().window.end_ns > last)
      name_idle(last, steps_.back().window.end_ns, last_index);
  }

  void count(uint32_t index) {
    const Span& span = trace_.spans[index];
    in_steps(span.start_ns, span.start_ns + 1, [&](StepPartition& step, int64_t, int64_t) {
      bool first = true;
      by_arrival(index, span.start_ns, span.end_ns, [&](int64_t a, int64_t b, Mechanism mechanism) {
        step.cells.push_back({span.path, span.ordinal, mechanism, 0, b - a, 0, 0, 0});
        if (first) {
          step.cells.back().longest_name = span.name;
          step.cells.back().longest_ns = span.end_ns - span.start_ns;
        }
        step.cells.back().count = first ? 1 : 0;
        first = false;
      });
    });
  }

  const Trace& trace_;
  const LastArrivals& last_arrivals_;
  const std::vector<int64_t> launches_;
  const IdleCauses idle_;
  std::vector<StepPartition> steps_;
};

}  // namespace

void check_partition(const StepPartition& step) {
  int64_t sum = 0;
  for (const Cell& cell : step.cells) sum += cell.owned_ns;
  if (sum == step.window.length_ns()) return;
  throw Error(ErrorKind::internal, "the parts of step " + std::to_string(step.window.index) +
                                       " add up to " + std::to_string(sum) + " ns, the step took " +
                                       std::to_string(step.window.length_ns()) + " ns");
}

std::vector<StepPartition> partition(const Trace& trace, const std::vector<StepWindow>& windows,
                                     const LastArrivals& last_arrivals) {
  return Partitioner(trace, windows, last_arrivals).run();
}

}  // namespace dettax
