#pragma once

#include <string>
#include <vector>

#include "results/record.h"

namespace dettax {

// What a consumer may be told of a tax. Only `measured` has a value; `unresolved` has an interval and
// no value; all others have neither.
enum class TaxState {
  measured,
  unresolved,    // the interval does not decide
  incomparable,  // the control arm differs: the machine was not quiet enough
  no_evidence,   // void: the bits were not reproduced, or nobody knows
  emulated,      // speed is not that of the hardware meant
  no_claim,      // the mode claims nothing that could be paid for
  unfinished,    // interrupted, broken, skipped: whatever is there is a part
};
const char* to_string(TaxState state);  // as above, in machine formats

TaxState tax_state(const Record& record, const Tax& tax);
inline bool has_value(TaxState state) { return state == TaxState::measured; }
inline bool has_interval(TaxState state) {
  return state == TaxState::measured || state == TaxState::unresolved;
}
// An arm's step time; null where there is none, or where a comparison of speeds would make a tax of what is none.
const Estimate* speed_of(const Record& record, const ArmResult& arm);

// For people: "+1.63 %", "between -4.08 % and +0.01 %: not resolved", "void: no evidence".
std::string tax_words(const Record& record, const Tax& tax);

// What spoils or limits the numbers of a case: faults put in, emulation, proxy, warnings; each once.
std::vector<std::string> caveats(const Record& record);
// What the case does not show, though a reader may think it does: taxes without a value, untested
// scopes, knobs whose race it would not have caught, a blind comparison.
std::vector<std::string> not_shown(const Record& record);

}  // namespace dettax
