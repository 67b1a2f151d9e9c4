#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "harness/evidence/comparable.h"
#include "harness/evidence/ledger_marks.h"
#include "harness/evidence/ledger_source.h"
#include "harness/evidence/step_walk.h"

namespace dettax {
namespace {

bool has_reduced(const LedgerNames& names) {
  for (uint32_t n = 0; n < names.size(); ++n) {
    if (is_reduction(names.at(n).path)) return true;
  }
  return false;
}

// Both ledgers' names by the same numbers.
class SharedNames {
 public:
  // With `layout_free` only what does not depend on the layout is kept.
  SharedNames(const LedgerNames& a, const LedgerNames& b, bool layout_free) {
    const bool with_reduced = has_reduced(a) && has_reduced(b);
    const auto kept = [&](const LedgerName& name) {
      return !layout_free || is_of_whole_model(name.path) ||
             (with_reduced && is_reduced(name.path, name.tensor));
    };
    for (const auto& [from, to] : {std::pair{&a, &of_a_}, std::pair{&b, &of_b_}}) {
      for (uint32_t n = 0; n < from->size(); ++n) {
        const LedgerName& name = from->at(n);
        to->push_back(kept(name) ? names_.number_of(name.path, name.tensor)
                                 : LedgerColumns::kLeftOut);
      }
    }
  }
  void translate_a(LedgerColumns& columns) const { columns.renumber(of_a_); }
  void translate_b(LedgerColumns& columns) const { columns.renumber(of_b_); }

  std::vector<LedgerEntry> entries(const LedgerColumns& columns, int64_t step) const {
    std::vector<LedgerEntry> out;
    out.reserve(columns.size());
    for (size_t i = 0; i < columns.size(); ++i) {
      const LedgerName& name = names_.at(columns.names[i]);
      out.push_back({step, name.path, name.tensor, columns.values[i]});
    }
    return out;
  }

 private:
  LedgerNames names_;
  std::vector<uint32_t> of_a_, of_b_;
};

class Comparer {
 public:
  Comparer(LedgerSource& a, LedgerSource& b, bool layout_free)
      : a_(a),
        b_(b),
        names_(a.names(), b.names(), layout_free),
        ranks_(layout_free ? 1 : std::min(a.ranks(), b.ranks())) {}

  LedgerComparison run() {
    std::set<int64_t> steps(a_.steps().begin(), a_.steps().end());
    steps.insert(b_.steps().begin(), b_.steps().end());
    LedgerComparison out;
    int64_t compared = 0, later = 0, steps_differing = 0;
    std::optional<StepWalk> first;
    for (const int64_t step : steps) {
      const Counts counts = count(step);
      if (counts.differing == 0) {
        compared += counts.compared;
        continue;
      }
      ++steps_differing;
      if (first) {
        compared += counts.compared;
        later += counts.differing;
      } else {
        first = walk(step);
        compared += first->compared();
      }
    }
    if (first) out = first->result(later);
    out.compared = compared;
    out.equal = !first && compared > 0;
    out.steps_differing = steps_differing;
    return out;
  }

 private:
  struct Counts {
    int64_t compared = 0, differing = 0;
  };

  void load(size_t rank, int64_t step) {
    a_.load(rank, step, in_a_);
    b_.load(rank, step, in_b_);
    names_.translate_a(in_a_);
    names_.translate_b(in_b_);
  }

  Counts count(int64_t step) {
    Counts sum;
    for (size_t rank = 0; rank < ranks_; ++rank) {
      load(rank, step);
      if (in_a_.names == in_b_.names) {
        sum.compared += static_cast<int64_t>(in_a_.size());
        for (size_t i = 0; i < in_a_.size(); ++i)
          sum.differing += in_a_.values[i] != in_b_.values[i] ? 1 : 0;
        continue;
      }
      StepWalk walk;
      walk.compare_rank(static_cast<int>(rank), names_.entries(in_a_, step),
                        names_.entries(in_b_, step));
      sum.compared += walk.compared();
      sum.differing += walk.differing();
    }
    return sum;
  }

  StepWalk walk(int64_t step) {
    StepWalk walk;
    for (size_t rank = 0; rank < ranks_; ++rank) {
      load(rank, step);
      walk.compare_rank(static_cast<int>(rank), names_.entries(in_a_, step),
                        names_.entries(in_b_, step));
    }
    return walk;
  }

  LedgerSource& a_;
  LedgerSource& b_;
  const SharedNames names_;
  const size_t ranks_;
  LedgerColumns in_a_, in_b_;
};

// A ledger with a rank without any entry says nothing of that rank.
bool lacks_a_rank(LedgerSource& ledger) {
  LedgerColumns columns;
  for (size_t rank = 0; rank < ledger.ranks(); ++rank) {
    const bool found = std::ranges::any_of(ledger.steps(), [&](int64_t step) {
      ledger.load(rank, step, columns);
      return columns.size() > 0;
    });
    if (!found) return true;
  }
  return ledger.ranks() == 0;
}

// Ranks that one of two forced together does not have.
void say_without_partner(LedgerComparison& result, size_t ranks_of_a, size_t ranks_of_b) {
  if (ranks_of_a == ranks_of_b) return;
  if (result.description.empty()) result.description = "what both have is equal";
  result.description +=
      fmt::format("; the first has {} ranks, the second {}: the others have no partner", ranks_of_a,
                  ranks_of_b);
  result.equal = false;
}

// What was cut off counts as missing, also where all that is left agrees.
void say_torn(LedgerComparison& result, const LedgerSource& ledger, const char* which) {
  if (!ledger.torn()) return;
  const std::string last =
      ledger.steps().empty() ? "its head" : fmt::format("step {}", ledger.steps().back());
  if (result.description.empty()) result.description = "what both have is equal";
  result.description += fmt::format("; the {} ledger was cut off behind {}", which, last);
  result.torn = true;
  result.equal = false;
}

}  // namespace

LedgerComparison compare_ledgers(LedgerSource& a, LedgerSource& b, const CompareOptions& options) {
  LedgerComparison refused;
  refused.comparable = false;
  const bool first_empty = lacks_a_rank(a);
  if (first_empty || lacks_a_rank(b)) {
    refused.incomparable_reason =
        fmt::format("the {} ledger is empty: step 0 is missing", first_empty ? "first" : "second");
  } else if (!options.force) {
    refused.incomparable_reason =
        head_difference(a.head(), a.ranks(), b.head(), b.ranks(), options);
  }
  if (!refused.incomparable_reason.empty()) {
    refused.description = refused.incomparable_reason;
    return refused;
  }
  const bool layout_free =
      options.allow_other_layout && (a.head().data_parallel != b.head().data_parallel ||
                                     a.head().micro_batch != b.head().micro_batch);
  LedgerComparison result = Comparer(a, b, layout_free).run();
  result.depth = std::min(a.head().depth, b.head().depth);
  if (result.compared == 0 && result.differing == 0)
    result.description = "nothing that both ledgers hold could be compared";
  if (!layout_free) say_without_partner(result, a.ranks(), b.ranks());
  say_torn(result, a, "first");
  say_torn(result, b, "second");
  return result;
}

LedgerComparison compare_ledgers(const Ledger& a, const Ledger& b, const CompareOptions& options) {
  return compare_ledgers(*view_ledger(a), *view_ledger(b), options);
}

}  // namespace dettax
