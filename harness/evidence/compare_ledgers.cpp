#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "harness/base/text.h"
#include "harness/evidence/ledger.h"

namespace dettax {
namespace {

constexpr std::string_view kReduce = "reduce/";

bool is_reduction(const LedgerEntry& entry) {
  return entry.path.find(kReduce) != std::string::npos;
}
bool is_input(const LedgerEntry& entry) { return entry.tensor.ends_with("before"); }
// A gradient that has the sum over micro-batches so far.
bool is_sum_so_far(const LedgerEntry& entry) {
  return entry.path.starts_with("micro") && !entry.path.starts_with("micro0/") &&
         entry.tensor.ends_with(".grad");
}
bool is_gradient(const LedgerEntry& entry) { return entry.tensor.ends_with(".grad"); }
// The parameter that an entry of the state belongs to.
std::string parameter_of(const std::string& tensor) {
  for (const std::string_view suffix : {".first_moment", ".second_moment"}) {
    if (tensor.ends_with(suffix)) return tensor.substr(0, tensor.size() - suffix.size());
  }
  return tensor;
}
bool was_received(const LedgerEntry& entry) { return entry.path.ends_with("/pipeline_receive"); }

// --- what must agree before bits are compared
// ------------------------------------------------------------------------------------

// A case's name without what only says how it is laid out: t<threads>, dp<ranks>, m<micro-batch>.
std::string without_layout(const std::string& case_id) {
  std::vector<std::string> kept;
  for (const std::string& part : split(case_id, '.')) {
    const size_t digits = part.find_first_of("0123456789");
    const std::string axis = part.substr(0, digits);
    const bool counted = digits != std::string::npos &&
                         part.find_first_not_of("0123456789", digits) == std::string::npos;
    if (!(counted && (axis == "t" || axis == "dp" || axis == "m"))) kept.push_back(part);
  }
  return join(kept, ".");
}

bool empty(const Ledger& ledger) {
  return ledger.ranks.empty() || std::any_of(ledger.ranks.begin(), ledger.ranks.end(),
                                             [](const auto& rank) { return rank.empty(); });
}

std::string shorter(const Ledger& a, const Ledger& b) {
  return fmt::format("the first covers {} steps, the second {}: step {} is missing in the {}",
                     a.steps, b.steps, std::min(a.steps, b.steps),
                     a.steps < b.steps ? "first" : "second");
}

// Why the two heads make bits incomparable; empty if they do not.
std::string head_difference(const Ledger& a, const Ledger& b, bool other_layout) {
  const auto differ = [](const char* what, const auto& x, const auto& y) {
    return fmt::format("{}: {} against {}", what, x, y);
  };
  const bool same_case = other_layout ? without_layout(a.case_id) == without_layout(b.case_id)
                                      : a.case_id == b.case_id;
  if (!same_case) return differ("another case", a.case_id, b.case_id);
  if (a.mode_hash != b.mode_hash)
    return differ("another mode", a.mode + " " + a.mode_hash, b.mode + " " + b.mode_hash);
  if (a.seed != b.seed) return differ("another seed", a.seed, b.seed);
  if (!other_layout) {
    if (a.threads_per_rank != b.threads_per_rank)
      return differ("different environment, not comparable bitwise: threads per rank",
                    a.threads_per_rank, b.threads_per_rank);
    if (a.data_parallel != b.data_parallel)
      return differ("different environment, not comparable bitwise: data-parallel ranks",
                    a.data_parallel, b.data_parallel);
    if (a.micro_batch != b.micro_batch)
      return differ("different environment, not comparable bitwise: micro-batch", a.micro_batch,
                    b.micro_batch);
    if (a.ranks.size() != b.ranks.size())
      return differ("another number of ranks", a.ranks.size(), b.ranks.size());
  }
  if (a.steps != b.steps) return shorter(a, b);
  return "";
}

// --- the comparison itself
// -------------------------------------------------------------------------------------------------------

using Steps = std::map<int64_t, std::vector<const LedgerEntry*>>;

struct Filter {
  bool layout_free = false;
  bool with_reduced = false;
  bool keeps(const LedgerEntry& entry) const {
    if (!layout_free) return true;
    return entry.path == "result" || entry.path == "state" ||
           (with_reduced && is_reduction(entry) && !is_input(entry));
  }
};

Steps by_step(const std::vector<LedgerEntry>& entries, const Filter& filter) {
  Steps steps;
  for (const LedgerEntry& entry : entries) {
    if (filter.keeps(entry)) steps[entry.step].push_back(&entry);
  }
  return steps;
}

struct Difference {
  int64_t step = 0;
  size_t position = 0;
  int rank = 0;
  LedgerEntry entry;
  std::string what;  // "dq differs"
};

bool before(const Difference& x, const Difference& y) {
  return std::tie(x.step, x.position, x.rank) < std::tie(y.step, y.position, y.rank);
}

class Walk {
 public:
  void compare_rank(int rank, const Steps& a, const Steps& b) {
    ++ranks_;
    std::map<int64_t, int> steps;
    for (const auto& [step, entries] : a) steps[step];
    for (const auto& [step, entries] : b) steps[step];
    static const std::vector<const LedgerEntry*> kNone;
    for (const auto& [step, unused] : steps) {
      const auto in_a = a.find(step), in_b = b.find(step);
      compare_step(rank, in_a == a.end() ? kNone : in_a->second,
                   in_b == b.end() ? kNone : in_b->second);
    }
  }

  LedgerComparison result() {
    LedgerComparison out;
    out.compared = compared_;
    out.differing = static_cast<int64_t>(differences_.size());
    out.equal = differences_.empty() && compared_ > 0;
    if (differences_.empty()) return out;
    const Difference& first = origin();
    out.first = first.entry;
    out.first_rank = first.rank;
    out.first_ranks = ranks_with(first);
    out.accumulated = only_sums_so_far(first.step);
    const bool reduced = is_reduction(first.entry) && !is_input(first.entry) && inputs_seen_;
    // A collective has at least two ranks.
    out.inputs_agreed = reduced && (out.first_ranks > 1 || ranks_ == 1);
    const std::string who = out.first_ranks > 1 && out.first_ranks == ranks_
                                ? fmt::format("all {} ranks", ranks_)
                                : fmt::format("rank {}", first.rank);
    out.description =
        fmt::format("step {}, {}, {}: {}", first.step, who, first.entry.path, first.what);
    if (out.inputs_agreed)
      out.description += "; its inputs agreed on every rank, so it is the order of the collective";
    else if (reduced)
      out.description += "; its inputs agreed on every rank, and no other rank's result differs";
    out.through_clip_factor = through_clip_factor(first.step);
    if (out.differing > 1)
      out.description += fmt::format(" ({} later {} downstream{})", out.differing - 1,
                                     out.differing == 2 ? "entry differs" : "entries differ",
                                     clip_words(out.through_clip_factor));
    return out;
  }

 private:
  using Entries = std::vector<const LedgerEntry*>;

  static std::string clip_words(int64_t parameters) {
    if (parameters == 0) return "";
    return fmt::format("; {} downstream of the clip factor alone",
                       parameters == 1 ? "1 parameter of them is"
                                       : fmt::format("{} parameters of them are", parameters));
  }

  // A factor that differs scales every update, also where the gradient is the same.
  int64_t through_clip_factor(int64_t step) const {
    std::set<std::string> changed, gradients;
    bool factor = false;
    for (const Difference& d : differences_) {
      if (d.step != step) continue;
      if (d.entry.path == "state") changed.insert(parameter_of(d.entry.tensor));
      if (is_gradient(d.entry)) gradients.insert(d.entry.tensor);
      factor = factor || d.entry.path == "optimizer/clip";
    }
    const auto compared = gradients_.find(step);
    if (!factor || compared == gradients_.end()) return 0;
    return std::ranges::count_if(changed, [&](const std::string& parameter) {
      const std::string gradient = parameter + ".grad";
      return compared->second.contains(gradient) && !gradients.contains(gradient);
    });
  }

  static bool same_key(const LedgerEntry& x, const LedgerEntry& y) {
    return x.path == y.path && x.tensor == y.tensor;
  }

  void compare_step(int rank, const Entries& a, const Entries& b) {
    size_t position = 0;
    while (position < a.size() && position < b.size() && same_key(*a[position], *b[position])) {
      compare_values(rank, position, *a[position], *b[position]);
      ++position;
    }
    if (position == a.size() && position == b.size()) return;
    explain_mismatch(rank, position, a, b);
    compare_by_key(rank, position, a, b);
  }

  void compare_values(int rank, size_t position, const LedgerEntry& a, const LedgerEntry& b) {
    ++compared_;
    inputs_seen_ = inputs_seen_ || (is_reduction(a) && is_input(a));
    if (is_sum_so_far(a)) ++sums_so_far_[a.step];
    if (is_gradient(a)) gradients_[a.step].insert(a.tensor);
    if (a.value != b.value)
      differences_.push_back({a.step, position, rank, a, a.tensor + " differs"});
  }

  // The first place where the two no longer say the same things in the same order.
  void explain_mismatch(int rank, size_t position, const Entries& a, const Entries& b) {
    const LedgerEntry& found = position < a.size() ? *a[position] : *b[position];
    const auto holds = [&](const Entries& all, const LedgerEntry& entry) {
      return std::any_of(all.begin() + static_cast<std::ptrdiff_t>(std::min(position, all.size())),
                         all.end(),
                         [&](const LedgerEntry* other) { return same_key(*other, entry); });
    };
    std::string what;
    if (position >= b.size() || !holds(b, found)) {
      what = found.tensor + " is missing in the second";
      if (b.empty()) what += ", which has nothing of this step";
    } else if (position >= a.size() || !holds(a, *b[position])) {
      what = fmt::format("{} {} is missing in the first", b[position]->path, b[position]->tensor);
    } else {
      what = fmt::format("{} stands where the second has {} {}: another order", found.tensor,
                         b[position]->path, b[position]->tensor);
    }
    if (position >= a.size() && a.empty())
      what = found.tensor + " is missing in the first, which has nothing of this step";
    else if (position >= a.size())
      what = found.tensor + " is missing in the first";
    differences_.push_back({found.step, position, rank, found, what});
  }

  // Behind a mismatch entries are paired by name: what has no partner counts as differing.
  void compare_by_key(int rank, size_t position, const Entries& a, const Entries& b) {
    std::multimap<std::pair<std::string, std::string>, const LedgerEntry*> left;
    for (size_t i = position; i < b.size(); ++i) left.insert({{b[i]->path, b[i]->tensor}, b[i]});
    for (size_t i = position; i < a.size(); ++i) {
      const auto partner = left.find({a[i]->path, a[i]->tensor});
      if (partner == left.end()) {
        if (i > position)
          differences_.push_back(
              {a[i]->step, i, rank, *a[i], a[i]->tensor + " is missing in the second"});
        continue;
      }
      if (a[i]->value != partner->second->value)
        differences_.push_back({a[i]->step, i + 1, rank, *a[i], a[i]->tensor + " differs"});
      ++compared_;
      left.erase(partner);
    }
    for (const auto& [key, entry] : left) {
      if (position >= b.size() || entry != b[position])
        differences_.push_back(
            {entry->step, b.size(), rank, *entry, entry->tensor + " is missing in the first"});
    }
  }

  // A race in one op gives one gradient another value, in whichever micro-batch it likes.
  bool only_sums_so_far(int64_t step) const {
    int64_t sums = 0;
    for (const Difference& d : differences_) {
      if (d.step != step || !d.entry.path.starts_with("micro")) continue;
      if (!is_sum_so_far(d.entry)) return false;
      ++sums;
    }
    const auto all = sums_so_far_.find(step);
    return all != sums_so_far_.end() && 2 * sums > all->second;
  }

  int64_t ranks_with(const Difference& found) const {
    return std::count_if(differences_.begin(), differences_.end(), [&](const Difference& other) {
      return other.step == found.step && same_key(other.entry, found.entry);
    });
  }

  // First in program order; a reduction only if none of its inputs differed on any rank. Stages of a pipeline run different programs:
  // one that first differs in what it received is downstream of the stage that sent it, however early in its own program that is.
  const Difference& origin() const {
    const Difference* first = &*std::min_element(differences_.begin(), differences_.end(), before);
    if (was_received(first->entry)) {
      const Difference* sender = first_where_nothing_was_received(first->step);
      return sender == nullptr ? *first : *sender;
    }
    if (!is_reduction(first->entry) || is_input(first->entry)) return *first;
    const Difference* input = differing_input(*first);
    return input == nullptr ? *first : *input;
  }

  const Difference* differing_input(const Difference& reduced) const {
    for (const Difference& other : differences_) {
      if (other.step == reduced.step && other.entry.path == reduced.entry.path &&
          is_input(other.entry))
        return &other;
    }
    return nullptr;
  }

  // Of the ranks that differ first in something of their own. A sum over ranks whose inputs differ is nobody's own.
  const Difference* first_where_nothing_was_received(int64_t step) const {
    std::map<int, const Difference*> firsts;
    for (const Difference& d : differences_) {
      const Difference*& first = firsts[d.rank];
      if (first == nullptr || before(d, *first)) first = &d;
    }
    const Difference* found = nullptr;
    for (const auto& [rank, d] : firsts) {
      if (d->step != step || was_received(d->entry)) continue;
      if (is_reduction(d->entry)) continue;
      if (found == nullptr || before(*d, *found)) found = d;
    }
    return found;
  }

  std::vector<Difference> differences_;
  std::map<int64_t, int64_t> sums_so_far_;              // compared, by step
  std::map<int64_t, std::set<std::string>> gradients_;  // likewise, by name
  int64_t compared_ = 0;
  int64_t ranks_ = 0;
  bool inputs_seen_ = false;  // of any reduction
};

bool has_reduced(const Ledger& ledger) {
  return std::any_of(ledger.ranks.front().begin(), ledger.ranks.front().end(), is_reduction);
}

}  // namespace

LedgerComparison compare_ledgers(const Ledger& a, const Ledger& b, const CompareOptions& options) {
  LedgerComparison refused;
  refused.comparable = false;
  if (empty(a) || empty(b)) {
    refused.incomparable_reason =
        fmt::format("the {} ledger is empty: step 0 is missing", empty(a) ? "first" : "second");
  } else if (!options.force) {
    refused.incomparable_reason = head_difference(a, b, options.allow_other_layout);
  }
  if (!refused.incomparable_reason.empty()) {
    refused.description = refused.incomparable_reason;
    return refused;
  }
  Filter filter;
  filter.layout_free = options.allow_other_layout &&
                       (a.data_parallel != b.data_parallel || a.micro_batch != b.micro_batch);
  filter.with_reduced = has_reduced(a) && has_reduced(b);
  const size_t ranks = filter.layout_free ? 1 : std::min(a.ranks.size(), b.ranks.size());
  Walk walk;
  for (size_t rank = 0; rank < ranks; ++rank)
    walk.compare_rank(static_cast<int>(rank), by_step(a.ranks[rank], filter),
                      by_step(b.ranks[rank], filter));
  LedgerComparison result = walk.result();
  if (result.compared == 0 && result.differing == 0)
    result.description = "nothing that both ledgers hold could be compared";
  return result;
}

}  // namespace dettax
