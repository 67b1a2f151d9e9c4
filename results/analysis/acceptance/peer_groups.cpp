#include "results/analysis/acceptance/peer_groups.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace dettax {
namespace {

PeerMember mean_of(const NodeObservation& first, std::vector<PeerValue> runs) {
  PeerMember mean{&first, {}, std::move(runs)};
  const auto count = static_cast<double>(mean.runs.size());
  double variance = 0, squares = 0;
  for (const PeerValue& run : mean.runs) {
    mean.value.value += run.value / count;
    variance += run.standard_error * run.standard_error;
  }
  for (const PeerValue& run : mean.runs)
    squares += (run.value - mean.value.value) * (run.value - mean.value.value);
  // What runs scatter by counts too, where it is more than each of them knew of.
  const double between = mean.runs.size() < 2 ? 0 : squares / (count - 1) / count;
  mean.value.standard_error = std::sqrt(std::max(variance / (count * count), between));
  return mean;
}

}  // namespace

std::vector<PeerValue> PeerGroup::values() const {
  std::vector<PeerValue> list;
  for (const PeerMember& member : members) list.push_back(member.value);
  return list;
}

std::vector<PeerGroup> peer_groups(const std::vector<NodeObservation>& all,
                                   const FleetSetup& setup) {
  using Runs = std::vector<std::pair<const NodeObservation*, PeerValue>>;
  std::map<std::tuple<std::string, std::string, std::string>, std::map<std::string, Runs>> groups;
  for (const NodeObservation& one : all) {
    if (setup.excluded.contains(one.node) || !one.one_node) continue;
    const std::string group = setup.group_of(one.node);
    if (one.fast_seconds)
      groups[{one.case_id, "", group}][one.node].emplace_back(&one, *one.fast_seconds);
    for (const auto& [arm, ratio] : one.overhead)
      groups[{one.case_id, arm, group}][one.node].emplace_back(&one, ratio);
  }
  std::vector<PeerGroup> out;
  for (const auto& [key, nodes] : groups) {
    PeerGroup& group = out.emplace_back();
    group.case_id = std::get<0>(key);
    group.arm = std::get<1>(key);
    for (const auto& [node, runs] : nodes) {
      std::vector<PeerValue> values;
      int64_t attempts = 0;
      for (const auto& [one, value] : runs) {
        values.push_back(value);
        attempts += one->attempts;
      }
      group.members.push_back(mean_of(*runs.front().first, std::move(values)));
      group.members.back().attempts = attempts;
    }
  }
  return out;
}

}  // namespace dettax
