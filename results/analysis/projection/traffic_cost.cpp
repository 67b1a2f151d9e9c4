#include "results/analysis/projection/traffic_cost.h"

#include <cmath>

namespace dettax {
namespace {

// The measured group that lies alike and is nearest in ranks; nothing if there is none.
std::optional<GroupShape> nearest(const std::vector<GroupShape>& measured,
                                  const GroupShape& group) {
  std::optional<GroupShape> best;
  const auto distance = [&](const GroupShape& one) {
    return std::abs(std::log(static_cast<double>(one.ranks) / static_cast<double>(group.ranks)));
  };
  for (const GroupShape& one : measured) {
    const bool alike = group.domains() == 1
                           ? one.domains() == 1
                           : one.domains() > 1 && one.per_domain == group.per_domain;
    if (alike && (!best || distance(one) < distance(*best))) best = one;
  }
  return best;
}

}  // namespace

double traffic_seconds(const Situation& s, CollectiveKind collective, double bytes,
                       const GroupShape& group) {
  const AlgorithmSet& allowed = s.determinism.algorithms;
  const auto model = [&](const GroupShape& shape) {
    return collective_seconds(s.machine, collective, bytes, shape, allowed);
  };
  if (s.table == nullptr || group.ranks <= 1 || !(bytes > 0)) return model(group);
  const std::string_view word = to_string(collective);
  const auto curve = nearest(s.table->groups(word), group);
  if (!curve) return model(group);
  const double measured =
      *s.table->collective_seconds(word, order_word(s.determinism.collective_order), *curve, bytes);
  return curve->ranks == group.ranks ? measured : measured * model(group) / model(*curve);
}

}  // namespace dettax
