// Rules that nodes keep or break beside each other.
#include "results/analysis/acceptance/fleet_rules.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/base/robust.h"
#include "results/analysis/acceptance/peer_groups.h"

namespace dettax {
namespace {

// In a fleet of fewer nodes the cut is so wide that a fault could hide under it.
constexpr size_t kSmallFleet = 16;
// A node measured so much worse than most, whose error alone could hide a fault, is not judged.
constexpr double kWorse = 2;

double usual_error_of(const std::vector<PeerValue>& values) {
  std::vector<double> errors;
  for (const PeerValue& one : values) errors.push_back(one.standard_error);
  return median(errors);
}

std::string percent_of(double log_ratio) { return format_signed_percent(std::expm1(log_ratio)); }

// Of a node whose own runs lie further apart than their intervals have it, no mean says what it is.
void judge_own_runs(const PeerGroup& what, const PeerMember& member, double least,
                    FindingList& list) {
  if (member.runs.size() < 2) return;
  const auto [low, high] = std::ranges::minmax_element(member.runs, {}, &PeerValue::value);
  const double apart = high->value - low->value;
  const double error = std::hypot(low->standard_error, high->standard_error);
  if (apart - kSure * error <= least) return list.keep("fleet");
  list.add("fleet", "badly_measured", *member.one,
           fmt::format("{} on {}: {} differs by {} between its own {} ({}), more than their "
                       "intervals have it and than the limit of {}: which of them is right is open",
                       what.case_id, member.one->node, what.quantity(), percent_of(apart),
                       format_things(static_cast<int64_t>(member.runs.size()), "run"),
                       format_things(member.attempts, "attempt"), percent_of(least)))
      .arm = what.arm;
}

void add_badly_measured(const PeerGroup& what, const PeerMember& member, double deviation,
                        double least, FindingList& list) {
  list.add("fleet", "badly_measured", *member.one,
           fmt::format("{} on {}: {} is {} off the fleet's, but known to {} only: its own error is "
                       "too large to tell a fault of {} from none",
                       what.case_id, member.one->node, what.quantity(), percent_of(deviation),
                       format_percent(std::expm1(kSure * member.value.standard_error)),
                       percent_of(least)))
      .arm = what.arm;
}

std::string spread_words(const PeerComparison& found, size_t n) {
  return fmt::format("{} nodes, robust spread {}", n, format_percent(std::expm1(found.scale)));
}

void judge_two_or_three(const PeerGroup& what, double least, FindingList& list) {
  const auto [low, high] = std::ranges::minmax_element(
      what.members, {}, [](const PeerMember& member) { return member.value.value; });
  const double apart = high->value.value - low->value.value;
  const double error = std::hypot(low->value.standard_error, high->value.standard_error);
  if (apart > least && apart - kSure * error <= least && kSure * error > least) {
    const bool high_is_worse = high->value.standard_error >= low->value.standard_error;
    return add_badly_measured(what, high_is_worse ? *high : *low, high_is_worse ? apart : -apart,
                              least, list);
  }
  if (apart - kSure * error <= least) return list.keep("fleet");
  list.add("fleet", "too_few_peers", *high->one,
           fmt::format("{}: {} is {} on {} against {}; with {} nodes nobody can say which is odd, "
                       "a baseline can",
                       what.case_id, what.quantity(), percent_of(apart), high->one->node,
                       low->one->node, what.members.size()))
      .arm = what.arm;
}

void add_odd(const PeerGroup& what, const PeerMember& member, double deviation,
             const PeerComparison& found, SlowRanks& slow_ranks, FindingList& list) {
  const NodeObservation& one = *member.one;
  const std::string spread = spread_words(found, what.members.size());
  if (!what.fast()) {
    const std::string fast = one.fast_seconds ? "" : ", its fast step unknown";
    list.add("fleet", "odd_ratio", one,
             fmt::format("{} on {}: {} over fast is {:.3f} against the fleet's {:.3f} ({}; {}){}{}",
                         what.case_id, one.node, what.arm, std::exp(member.value.value),
                         std::exp(found.center), percent_of(deviation), spread, fast,
                         bits_words(*one.record)))
        .arm = what.arm;
    return;
  }
  const std::string words = fmt::format(
      "{} on {}: the fast step takes {:.2f} times the fleet's median ({} against {}; {})",
      what.case_id, one.node, std::exp(deviation), format_seconds(std::exp(member.value.value)),
      format_seconds(std::exp(found.center)), spread);
  const auto rank = slow_ranks.find({one.node, one.case_id});
  if (deviation > 0 && rank != slow_ranks.end()) {
    list.findings()[rank->second].words += "; so the node's step is " + percent_of(deviation);
    return;
  }
  list.add("fleet", deviation > 0 ? "slow_node" : "fast_node", one,
           words + bits_words(*one.record));
}

void judge_small(const PeerGroup& what, const PeerMember& member, double deviation, double least,
                 FindingList& list) {
  list.add("fleet", "too_few_peers", *member.one,
           fmt::format("{} on {}: {} is {} off the median of {} nodes, over the limit of {}, but "
                       "so few of this spread cannot tell it from chance",
                       what.case_id, member.one->node, what.quantity(), percent_of(deviation),
                       what.members.size(), percent_of(least)))
      .arm = what.arm;
}

void judge_comparison(const PeerGroup& what, double alarm, const AcceptanceRules& rules,
                      SlowRanks& slow_ranks, std::map<std::string, FleetPosition>& positions,
                      FindingList& list) {
  const size_t n = what.members.size();
  const double least = std::log(what.fast() ? rules.fleet.slow_ratio : rules.fleet.odd_ratio);
  for (const PeerMember& member : what.members) judge_own_runs(what, member, least, list);
  if (n < 2) return;
  if (n < static_cast<size_t>(rules.fleet.min_nodes)) return judge_two_or_three(what, least, list);
  const std::vector<PeerValue> values = what.values();
  const PeerComparison found = compare_with_peers(values, alarm);
  const double usual_error = usual_error_of(values);
  size_t wide = 0;
  for (size_t i = 0; i < n; ++i) {
    const PeerMember& member = what.members[i];
    const double deviation = found.deviation[i];
    const double size = std::abs(deviation);
    FleetPosition& position = positions[member.one->node];
    (what.fast() ? position.fast : position.overhead).push_back(deviation);
    const bool matters = size > least;
    const double error = member.value.standard_error;
    // What a fault must exceed to be seen in a node that was measured as well as most.
    const double seen = n < kSmallFleet ? least : std::max(least, found.usual_cut);
    const bool worse = error > kWorse * usual_error;
    const bool badly = worse && (kSure * error > seen || (matters && size > found.usual_cut));
    if (matters && found.odd(i)) {
      add_odd(what, member, deviation, found, slow_ranks, list);
    } else if (matters && n < kSmallFleet && size - kSure * error > least) {
      judge_small(what, member, deviation, least, list);
    } else if (badly) {
      add_badly_measured(what, member, deviation, least, list);
    } else {
      wide += matters ? 1 : 0;
      list.keep("fleet");
    }
  }
  if (wide > 0)
    list.note(
        fmt::format("{}{}{}: {} of {} nodes are further off the median than the limit of {}, "
                    "as the fleet's spread of {} has it",
                    what.case_id, what.fast() ? "" : " ", what.arm, wide, n, percent_of(least),
                    format_percent(std::expm1(found.scale))));
}

}  // namespace

std::string FleetSetup::group_of(const std::string& node) const {
  const auto found = group.find(node);
  return found == group.end() ? "" : found->second;
}

std::string bits_words(const Record& record) {
  bool any = false, equal = true;
  for (const ArmResult& arm : record.arms) {
    const ArmEvidence* evidence = find_evidence(record, arm.arm);
    if (!arm.claims_reproducible || evidence == nullptr) continue;
    any = true;
    equal = equal && reproduced(*evidence);
  }
  if (!any) return "; of its bits nothing is known";
  return equal ? "; its bits are fine" : "; its bits are not reproduced either";
}

std::vector<FleetPosition> judge_fleet(const std::vector<NodeObservation>& all,
                                       const FleetSetup& setup, const AcceptanceRules& rules,
                                       FindingList& list) {
  judge_presence(all, list);
  const std::vector<PeerGroup> whole = peer_groups(all, setup);
  std::set<std::string> with_ranks;
  for (const NodeObservation& one : all) {
    if (!one.ranks.empty()) with_ranks.insert(one.case_id);
  }
  // All comparisons together may accuse a clean fleet no oftener than the rules allow.
  const size_t tests = std::max<size_t>(1, whole.size() + with_ranks.size());
  const double alarm = rules.fleet.false_accusation_ratio / static_cast<double>(tests);
  SlowRanks slow = judge_ranks(all, setup, alarm, rules, list);
  std::map<std::string, FleetPosition> positions;
  for (const PeerGroup& what : whole) judge_comparison(what, alarm, rules, slow, positions, list);
  judge_memory_of_fleet(all, setup, rules, list);
  std::vector<FleetPosition> out;
  for (auto& [node, position] : positions) {
    position.node = node;
    out.push_back(std::move(position));
  }
  return out;
}

}  // namespace dettax
