#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace dettax {

// A union of half-open intervals, kept as disjoint ones in order.
class IntervalSet {
 public:
  struct Interval {
    int64_t start, end;
  };

  // Must be called in order of start.
  void add(int64_t start, int64_t end) {
    if (end <= start) return;
    if (!intervals_.empty() && start <= intervals_.back().end) {
      intervals_.back().end = std::max(intervals_.back().end, end);
    } else {
      intervals_.push_back({start, end});
    }
  }

  const std::vector<Interval>& intervals() const { return intervals_; }

  int64_t length() const {
    int64_t sum = 0;
    for (const Interval& interval : intervals_) sum += interval.end - interval.start;
    return sum;
  }

  // Cuts what `pieces` (disjoint, in order) have in common with this set out of them and gives it to `take(start, end)`.
  template <typename Take>
  void cut_out_of(std::vector<Interval>& pieces, const Take& take) const {
    if (intervals_.empty() || pieces.empty()) return;
    std::vector<Interval> left;
    for (const Interval piece : pieces) {
      int64_t at = piece.start;
      auto found = std::upper_bound(
          intervals_.begin(), intervals_.end(), piece.start,
          [](int64_t time, const Interval& interval) { return time < interval.end; });
      for (; found != intervals_.end() && found->start < piece.end; ++found) {
        const int64_t start = std::max(at, found->start), end = std::min(piece.end, found->end);
        if (at < start) left.push_back({at, start});
        take(start, end);
        at = end;
      }
      if (at < piece.end) left.push_back({at, piece.end});
    }
    pieces = std::move(left);
  }

 private:
  std::vector<Interval> intervals_;
};

}  // namespace dettax
