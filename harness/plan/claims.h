#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/plan/case.h"

namespace dettax {

// What a knob's value promises about bits, and what a mode that claims them has to set. Modes are
// checked by it when they are read, and a difference that was found is explained by it.

// What may change while the bits stay.
enum class BitsOver { runs, threads, ranks };

// What is claimed of a scope of evidence: over other_threads and other_ranks of threads and of ranks
// (and micro-batches), over any other of runs.
BitsOver bits_over(std::string_view scope);

// Knobs whose ordered sums depend on who computes what, or on the chunk that was fastest: what a
// dynamic schedule reaches.
std::span<const Knob> scheduled_knobs();

bool schedule_reaches_a_sum(const Knobs& knobs);

// The value that keeps the bits where the present one lets them change; nothing where it keeps them.
// A schedule lets them change only through an ordered sum of a scheduled knob.
std::optional<std::string_view> value_needed(const Knobs& knobs, Knob knob, BitsOver over);

// Knobs of the mode whose values do not hold what it claims.
struct UnmetClaim {
  Knob knob;
  std::string_view claim;  // "claims_reproducible" or "claims_invariant"
  std::string_view needed;
};
std::vector<UnmetClaim> unmet_claims(const Mode& mode);

// "atomic does not go with claims_reproducible: true, which needs ordered"
std::string in_words(const UnmetClaim& claim, const Knobs& knobs);

}  // namespace dettax
