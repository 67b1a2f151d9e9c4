#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/evidence/ledger.h"

namespace dettax {

// The first step in which two ledgers differ, rank by rank: what differs, and where it began.
class StepWalk {
 public:
  // Each rank once, in order; both are the step's entries in program order.
  void compare_rank(int rank, const std::vector<LedgerEntry>& a, const std::vector<LedgerEntry>& b);

  int64_t compared() const { return compared_; }
  int64_t differing() const { return static_cast<int64_t>(differences_.size()); }
  // Place and kind of the first difference; there must be one. `later` more differ in steps behind this one.
  LedgerComparison result(int64_t later) const;

 private:
  using Entries = std::vector<LedgerEntry>;
  struct Difference {
    size_t position = 0;
    int rank = 0;
    LedgerEntry entry;
    std::string what;  // "dq differs"
    bool structural = false;
    bool step_missing = false;  // one of the two has nothing of the step
  };
  static bool before(const Difference& x, const Difference& y);

  void compare_values(int rank, size_t position, const LedgerEntry& a, const LedgerEntry& b);
  void explain_mismatch(int rank, size_t position, const Entries& a, const Entries& b);
  void compare_by_key(int rank, size_t position, const Entries& a, const Entries& b);
  int64_t through_clip_factor() const;
  bool only_sums_so_far() const;
  int64_t ranks_with(const Difference& found) const;
  const Difference& origin() const;
  const Difference* differing_input(const Difference& reduced) const;
  const Difference* first_where_nothing_was_received() const;

  std::vector<Difference> differences_;
  std::set<std::string> gradients_;  // compared, by name
  int64_t sums_so_far_ = 0;          // compared
  int64_t compared_ = 0;
  int64_t ranks_ = 0;
  bool inputs_seen_ = false;  // of any reduction
};

}  // namespace dettax
