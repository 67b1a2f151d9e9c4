#include "results/record.h"

#include <algorithm>
#include <numeric>

namespace dettax {
namespace {

template <class T>
const T* find_by_arm(const std::vector<T>& all, std::string_view arm) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const T& one) { return one.arm == arm; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

const ArmResult* find_arm(const Record& record, std::string_view arm) {
  return find_by_arm(record.arms, arm);
}

const ArmEvidence* find_evidence(const Record& record, std::string_view arm) {
  return find_by_arm(record.evidence.arms, arm);
}

double total_seconds(const KnobCost& cost) {
  return std::accumulate(cost.cells.begin(), cost.cells.end(), cost.recording_seconds);
}

bool claims(const Record& record, std::string_view arm) {
  const ArmResult* found = find_arm(record, arm);
  return found != nullptr && found->claims_reproducible;
}

}  // namespace dettax
