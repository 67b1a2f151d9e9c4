#include "harness/evidence/repetition.h"

#include <unordered_map>
#include <vector>

#include <fmt/format.h>

namespace dettax {
namespace {

// The values of one step of one rank by name, each in the order it came: ledgers of two depths have entries in another order.
class ValuesByName {
 public:
  ValuesByName(const LedgerColumns& columns, const LedgerNames& names) {
    for (size_t i = 0; i < columns.size(); ++i)
      places_[key_of(names.at(columns.names[i]))].values.push_back(columns.values[i]);
  }
  // The next of that name; null where there is none left.
  const Fingerprint* next(const LedgerName& name) {
    const auto found = places_.find(key_of(name));
    if (found == places_.end() || found->second.taken == found->second.values.size())
      return nullptr;
    return &found->second.values[found->second.taken++];
  }

 private:
  struct Place {
    std::vector<Fingerprint> values;
    size_t taken = 0;
  };
  static std::string key_of(const LedgerName& name) { return name.path + '\n' + name.tensor; }
  std::unordered_map<std::string, Place> places_;
};

// One step of both runs, of which the new one may lack ranks.
class StepOfBoth {
 public:
  StepOfBoth(LedgerSource& recorded, LedgerSource& again) : recorded_(recorded), again_(again) {}

  // The first entry of the rank that the new run has not or otherwise, in words; empty: none. With `only_state` of the state alone.
  std::string first_difference(int64_t step, size_t rank, bool only_state) {
    recorded_.load(rank, step, then_);
    now_.clear();
    if (rank < again_.ranks()) again_.load(rank, step, now_);
    ValuesByName values(now_, again_.names());
    for (size_t i = 0; i < then_.size(); ++i) {
      const LedgerName& name = recorded_.names().at(then_.names[i]);
      if (only_state && name.path != "state") continue;
      ++compared_;
      const Fingerprint* value = values.next(name);
      if (value == nullptr || *value != then_.values[i])
        return fmt::format("step {}, rank {}, {}: {}{}", step, rank, name.path, name.tensor,
                           value == nullptr ? " is missing" : "");
    }
    return "";
  }
  int64_t compared() const { return compared_; }

 private:
  LedgerSource& recorded_;
  LedgerSource& again_;
  LedgerColumns then_, now_;
  int64_t compared_ = 0;
};

}  // namespace

Repetition compare_repetition(LedgerSource& recorded, LedgerSource& again, int64_t from,
                              int64_t end) {
  StepOfBoth both(recorded, again);
  std::string found;
  for (const int64_t step : recorded.steps()) {
    if (step + 1 < from || step >= end) continue;
    for (size_t rank = 0; rank < recorded.ranks() && found.empty(); ++rank)
      found = both.first_difference(step, rank, step < from);
  }
  return {both.compared(), found};
}

}  // namespace dettax
