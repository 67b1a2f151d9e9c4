#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/evidence/ledger.h"
#include "harness/plan/claims.h"

namespace dettax {

// Ordering knobs that decide the order of the sums behind a tensor, by its op's path, in the catalog's
// order; none where no sum has an order to choose. What a comparison over ranks shows of a step (reduced
// gradients, results, state) has all sums over samples behind it.
std::vector<Knob> ordering_knobs(std::string_view path, std::string_view tensor,
                                 BitsOver over = BitsOver::runs);

// What kind of thing a first difference is, and what to do about it.
struct Cause {
  // "collective order", "order of sums: attention", "accumulation precision", "bucket layout", "RNG position", "data order",
  // "initial weights", "environment", "not told at depth layer", "no order of sums"; empty where nothing differs
  std::string name;
  std::string advice;  // knob and library settings
};
// Ordering knobs that have nothing to act on in a run: `moe` without experts, `collectives` on one rank.
std::vector<Knob> absent_knobs(const LedgerHead& head, size_t ranks);

// Of an arm with these knobs, in this scope of evidence: names the knobs whose values let the bits
// change there and the values that keep them, or says that no knob does. Never names an absent one.
Cause cause_of(const LedgerComparison& comparison, const Knobs& knobs, std::string_view scope,
               const std::vector<Knob>& absent = {});

}  // namespace dettax
