#include "harness/evidence/step_walk.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "harness/evidence/ledger_marks.h"

namespace dettax {
namespace {

bool same_key(const LedgerEntry& x, const LedgerEntry& y) {
  return x.path == y.path && x.tensor == y.tensor;
}

std::string clip_words(int64_t parameters) {
  if (parameters == 0) return "";
  return fmt::format("; {} downstream of the clip factor alone",
                     parameters == 1 ? "1 parameter of them is"
                                     : fmt::format("{} parameters of them are", parameters));
}

}  // namespace

bool StepWalk::before(const Difference& x, const Difference& y) {
  return std::tie(x.position, x.rank) < std::tie(y.position, y.rank);
}

void StepWalk::compare_rank(int rank, const Entries& a, const Entries& b) {
  ++ranks_;
  size_t position = 0;
  while (position < a.size() && position < b.size() && same_key(a[position], b[position])) {
    compare_values(rank, position, a[position], b[position]);
    ++position;
  }
  if (position == a.size() && position == b.size()) return;
  explain_mismatch(rank, position, a, b);
  compare_by_key(rank, position, a, b);
}

void StepWalk::compare_values(int rank, size_t position, const LedgerEntry& a,
                              const LedgerEntry& b) {
  ++compared_;
  inputs_seen_ = inputs_seen_ || (is_reduction(a.path) && is_input(a.tensor));
  if (is_sum_so_far(a.path, a.tensor)) ++sums_so_far_;
  if (is_gradient(a.tensor)) gradients_.insert(a.tensor);
  if (a.value != b.value) differences_.push_back({position, rank, a, a.tensor + " differs", false});
}

// The first place where the two no longer say the same things in the same order.
void StepWalk::explain_mismatch(int rank, size_t position, const Entries& a, const Entries& b) {
  const LedgerEntry& found = position < a.size() ? a[position] : b[position];
  const auto holds = [&](const Entries& all, const LedgerEntry& entry) {
    return std::any_of(all.begin() + static_cast<std::ptrdiff_t>(std::min(position, all.size())),
                       all.end(), [&](const LedgerEntry& other) { return same_key(other, entry); });
  };
  std::string what;
  if (position >= a.size()) {
    what = found.tensor + " is missing in the first";
    if (a.empty()) what += ", which has nothing of this step";
  } else if (position >= b.size() || !holds(b, found)) {
    what = found.tensor + " is missing in the second";
    if (b.empty()) what += ", which has nothing of this step";
  } else if (!holds(a, b[position])) {
    what = fmt::format("{} {} is missing in the first", b[position].path, b[position].tensor);
  } else {
    what = fmt::format("{} stands where the second has {} {}: another order", found.tensor,
                       b[position].path, b[position].tensor);
  }
  differences_.push_back({position, rank, found, what, true, a.empty() || b.empty()});
}

// Behind a mismatch entries are paired by name: what has no partner counts as differing.
void StepWalk::compare_by_key(int rank, size_t position, const Entries& a, const Entries& b) {
  std::multimap<std::pair<std::string, std::string>, const LedgerEntry*> left;
  for (size_t i = position; i < b.size(); ++i) left.insert({{b[i].path, b[i].tensor}, &b[i]});
  for (size_t i = position; i < a.size(); ++i) {
    const auto partner = left.find({a[i].path, a[i].tensor});
    if (partner == left.end()) {
      if (i > position)
        differences_.push_back({i, rank, a[i], a[i].tensor + " is missing in the second", true});
      continue;
    }
    if (a[i].value != partner->second->value)
      differences_.push_back({i + 1, rank, a[i], a[i].tensor + " differs", false});
    ++compared_;
    left.erase(partner);
  }
  for (const auto& [key, entry] : left) {
    if (position >= b.size() || entry != &b[position])
      differences_.push_back(
          {b.size(), rank, *entry, entry->tensor + " is missing in the first", true});
  }
}

LedgerComparison StepWalk::result(int64_t later) const {
  LedgerComparison out;
  const Difference& first = origin();
  out.first = first.entry;
  out.first_rank = first.rank;
  out.first_ranks = ranks_with(first);
  out.structural = first.structural;
  out.step_missing = first.step_missing;
  out.gradients_agreed = first.entry.path == "state" && !first.structural &&
                         gradients_.contains(parameter_of(first.entry.tensor) + ".grad");
  out.accumulated = only_sums_so_far();
  out.differing = differing() + later;
  const bool reduced = is_reduced(first.entry.path, first.entry.tensor) && inputs_seen_;
  // A collective has at least two ranks.
  out.inputs_agreed = reduced && !first.structural && (out.first_ranks > 1 || ranks_ == 1);
  const std::string who = out.first_ranks > 1 && out.first_ranks == ranks_
                              ? fmt::format("all {} ranks", ranks_)
                              : fmt::format("rank {}", first.rank);
  out.description =
      fmt::format("step {}, {}, {}: {}", first.entry.step, who, first.entry.path, first.what);
  if (out.inputs_agreed)
    out.description += "; its inputs agreed on every rank, so it is the order of the collective";
  else if (reduced && !first.structural)
    out.description += "; its inputs agreed on every rank, and no other rank's result differs";
  out.through_clip_factor = through_clip_factor();
  if (out.differing > 1)
    out.description += fmt::format(" ({} later {} downstream{})", out.differing - 1,
                                   out.differing == 2 ? "entry differs" : "entries differ",
                                   clip_words(out.through_clip_factor));
  return out;
}

// A factor that differs scales every update, also where the gradient is the same.
int64_t StepWalk::through_clip_factor() const {
  std::set<std::string> changed, gradients;
  bool factor = false;
  for (const Difference& d : differences_) {
    if (d.entry.path == "state") changed.insert(parameter_of(d.entry.tensor));
    if (is_gradient(d.entry.tensor)) gradients.insert(d.entry.tensor);
    factor = factor || d.entry.path == "optimizer/clip";
  }
  if (!factor) return 0;
  return std::ranges::count_if(changed, [&](const std::string& parameter) {
    const std::string gradient = parameter + ".grad";
    return gradients_.contains(gradient) && !gradients.contains(gradient);
  });
}

// A race in one op gives one gradient another value, in whichever micro-batch it likes.
bool StepWalk::only_sums_so_far() const {
  int64_t sums = 0;
  for (const Difference& d : differences_) {
    if (!d.entry.path.starts_with("micro")) continue;
    if (!is_sum_so_far(d.entry.path, d.entry.tensor)) return false;
    ++sums;
  }
  return 2 * sums > sums_so_far_;
}

int64_t StepWalk::ranks_with(const Difference& found) const {
  return std::ranges::count_if(
      differences_, [&](const Difference& other) { return same_key(other.entry, found.entry); });
}

// First in program order; a reduction only if none of its inputs differed on any rank. Stages of a pipeline run different programs:
// one that first differs in what it received is downstream of the stage that sent it, however early in its own program that is.
const StepWalk::Difference& StepWalk::origin() const {
  const Difference& first = *std::ranges::min_element(differences_, before);
  if (was_received(first.entry.path)) {
    const Difference* sender = first_where_nothing_was_received();
    return sender == nullptr ? first : *sender;
  }
  if (!is_reduced(first.entry.path, first.entry.tensor)) return first;
  const Difference* input = differing_input(first);
  return input == nullptr ? first : *input;
}

const StepWalk::Difference* StepWalk::differing_input(const Difference& reduced) const {
  const auto found = std::ranges::find_if(differences_, [&](const Difference& other) {
    return other.entry.path == reduced.entry.path && is_input(other.entry.tensor);
  });
  return found == differences_.end() ? nullptr : &*found;
}

// Of the ranks that differ first in something of their own. A sum over ranks whose inputs differ is nobody's own.
const StepWalk::Difference* StepWalk::first_where_nothing_was_received() const {
  std::map<int, const Difference*> firsts;
  for (const Difference& d : differences_) {
    const Difference*& first = firsts[d.rank];
    if (first == nullptr || before(d, *first)) first = &d;
  }
  const Difference* found = nullptr;
  for (const auto& [rank, d] : firsts) {
    if (was_received(d->entry.path) || is_reduction(d->entry.path)) continue;
    if (found == nullptr || before(*d, *found)) found = d;
  }
  return found;
}

}  // namespace dettax
