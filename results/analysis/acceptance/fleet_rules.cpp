// Rules that nodes keep or break beside each other.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/base/robust.h"
#include "results/analysis/acceptance/findings.h"

namespace dettax {
namespace {

// In a fleet of fewer nodes the cut is so wide that a fault could hide under it.
constexpr size_t kSmallFleet = 16;
constexpr double kSure = 2.576;  // standard errors: 99 %, two-sided
constexpr size_t kFewestRanksPooled = 8;

// A node's place in one comparison: the mean over its runs.
struct Member {
  const NodeObservation* one = nullptr;
  PeerValue value;
};

std::vector<Member> merged(const std::vector<Member>& all) {
  std::map<std::string, std::vector<Member>> by_node;
  for (const Member& member : all) by_node[member.one->node].push_back(member);
  std::vector<Member> out;
  for (const auto& [node, runs] : by_node) {
    Member mean{runs.front().one, {}};
    const auto count = static_cast<double>(runs.size());
    double variance = 0;
    for (const Member& run : runs) {
      mean.value.value += run.value.value / count;
      variance += run.value.standard_error * run.value.standard_error;
    }
    mean.value.standard_error = std::sqrt(variance) / count;
    out.push_back(mean);
  }
  return out;
}

std::vector<PeerValue> values_of(const std::vector<Member>& members) {
  std::vector<PeerValue> values;
  for (const Member& member : members) values.push_back(member.value);
  return values;
}

std::string percent_of(double log_ratio) { return format_signed_percent(std::expm1(log_ratio)); }

// Slow is not nondeterministic: whoever reads of one wants to know of the other.
std::string bits_words(const Record& record) {
  bool any = false, equal = true;
  for (const ArmResult& arm : record.arms) {
    const ArmEvidence* evidence = find_evidence(record, arm.arm);
    if (!arm.claims_reproducible || evidence == nullptr) continue;
    any = true;
    equal = equal && evidence->reproducible;
  }
  if (!any) return "; of its bits nothing is known";
  return equal ? "; its bits are fine" : "; its bits are not reproduced either";
}

// What is compared, in one case.
struct PeerGroup {
  std::string case_id, arm;  // arm empty: the fast step
  std::vector<Member> members;
  bool fast() const { return arm.empty(); }
};

std::vector<PeerGroup> comparisons(const std::vector<NodeObservation>& all,
                                   const std::set<std::string>& excluded) {
  std::map<std::pair<std::string, std::string>, std::vector<Member>> groups;
  for (const NodeObservation& one : all) {
    if (excluded.contains(one.node) || !one.one_node) continue;
    if (one.fast_seconds) groups[{one.case_id, ""}].push_back({&one, *one.fast_seconds});
    for (const auto& [arm, ratio] : one.overhead)
      groups[{one.case_id, arm}].push_back({&one, ratio});
  }
  std::vector<PeerGroup> out;
  for (const auto& [key, members] : groups) out.push_back({key.first, key.second, merged(members)});
  return out;
}

std::string spread_words(const PeerComparison& found, size_t n) {
  return fmt::format("{} nodes, robust spread {}", n, format_percent(std::expm1(found.scale)));
}

void judge_two_or_three(const PeerGroup& what, double least, FindingList& list) {
  const auto [low, high] = std::ranges::minmax_element(
      what.members, {}, [](const Member& member) { return member.value.value; });
  const double apart = high->value.value - low->value.value;
  const double error = std::hypot(low->value.standard_error, high->value.standard_error);
  if (apart - kSure * error <= least) return list.keep("fleet");
  list.add("fleet", "too_few_peers", *high->one,
           fmt::format("{}: {} is {} on {} against {}; with {} nodes nobody can say which is odd, "
                       "a baseline can",
                       what.case_id, what.fast() ? "the fast step" : "the ratio of " + what.arm,
                       percent_of(apart), high->one->node, low->one->node, what.members.size()))
      .arm = what.arm;
}

// Slow ranks of a case: what was found for them explains a slow node.
using SlowRanks = std::map<std::pair<std::string, std::string>, size_t>;  // node, case -> finding

void add_odd(const PeerGroup& what, const Member& member, double deviation,
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

void judge_small(const PeerGroup& what, const Member& member, double deviation, double least,
                 FindingList& list) {
  list.add("fleet", "too_few_peers", *member.one,
           fmt::format("{} on {}: {} is {} off the median of {} nodes, over the limit of {}, but "
                       "so few of this spread cannot tell it from chance",
                       what.case_id, member.one->node,
                       what.fast() ? "the fast step" : "the ratio of " + what.arm,
                       percent_of(deviation), what.members.size(), percent_of(least)))
      .arm = what.arm;
}

void judge_comparison(const PeerGroup& what, double alarm, const AcceptanceRules& rules,
                      SlowRanks& slow_ranks, std::map<std::string, FleetPosition>& positions,
                      FindingList& list) {
  const size_t n = what.members.size();
  const double least = std::log(what.fast() ? rules.fleet.slow_ratio : rules.fleet.odd_ratio);
  if (n < 2) return;
  if (n < static_cast<size_t>(rules.fleet.min_nodes)) return judge_two_or_three(what, least, list);
  const PeerComparison found = compare_with_peers(values_of(what.members), alarm);
  size_t wide = 0;
  for (size_t i = 0; i < n; ++i) {
    const Member& member = what.members[i];
    const double deviation = found.deviation[i];
    const double size = std::abs(deviation);
    FleetPosition& position = positions[member.one->node];
    (what.fast() ? position.fast : position.overhead).push_back(deviation);
    const bool matters = size > least;
    if (matters && found.odd(i)) {
      add_odd(what, member, deviation, found, slow_ranks, list);
    } else if (matters && n < kSmallFleet && size - kSure * member.value.standard_error > least) {
      judge_small(what, member, deviation, least, list);
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

// --- ranks

SlowRanks judge_ranks(const std::vector<NodeObservation>& all,
                      const std::set<std::string>& excluded, double alarm_share,
                      const AcceptanceRules& rules, FindingList& list) {
  std::map<std::string, std::vector<std::pair<const NodeObservation*, RankObservation>>> by_case;
  for (const NodeObservation& one : all) {
    if (excluded.contains(one.node)) continue;
    for (const RankObservation& rank : one.ranks) by_case[one.case_id].emplace_back(&one, rank);
  }
  SlowRanks slow;
  const double least = std::log(rules.max_rank_ratio);
  for (const auto& [case_id, ranks] : by_case) {
    std::vector<PeerValue> values;
    for (const auto& [one, rank] : ranks) values.push_back(rank.excess);
    std::optional<PeerComparison> pooled;
    if (values.size() >= kFewestRanksPooled) pooled = compare_with_peers(values, alarm_share);
    for (size_t i = 0; i < ranks.size(); ++i) {
      const auto& [one, rank] = ranks[i];
      const double excess = rank.excess.value;
      const bool over = excess - kSure * rank.excess.standard_error > least;
      if (!over || (pooled && pooled->deviation[i] <= pooled->cut[i])) {
        list.keep("stragglers");
        continue;
      }
      AcceptanceFinding& found = list.add(
          "stragglers", "slow_rank", *one,
          fmt::format("{} on {}: rank {} takes {:.2f} times its median peer's step, limit {:.2f}{}",
                      case_id, rank.node, rank.rank, std::exp(excess), rules.max_rank_ratio,
                      bits_words(*one->record)));
      found.rank = rank.rank;
      found.node = rank.node;
      slow.emplace(std::pair(rank.node, case_id), list.findings().size() - 1);
    }
  }
  return slow;
}

// --- memory

void judge_memory(const std::vector<NodeObservation>& all, const std::set<std::string>& excluded,
                  const AcceptanceRules& rules, FindingList& list) {
  using Arm = std::pair<std::string, std::string>;
  std::map<Arm, std::vector<std::pair<const NodeObservation*, double>>> groups;
  for (const NodeObservation& one : all) {
    if (excluded.contains(one.node)) continue;
    for (const ArmResult& arm : one.record->arms) {
      if (arm.memory_peak_bytes > 0)
        groups[{one.case_id, arm.arm}].emplace_back(&one,
                                                    static_cast<double>(arm.memory_peak_bytes));
    }
  }
  for (const auto& [key, members] : groups) {
    if (members.size() < static_cast<size_t>(rules.fleet.min_nodes)) continue;
    std::vector<double> peaks;
    for (const auto& [one, peak] : members) peaks.push_back(peak);
    const double usual = median(peaks);
    for (const auto& [one, peak] : members) {
      if (peak <= rules.max_memory_fleet_ratio * usual) {
        list.keep("memory");
        continue;
      }
      list.add("memory", "over_memory", *one,
               fmt::format(
                   "{} on {}: {} took {}, {:.2f} times the fleet's median of {}, limit {:.2f}",
                   key.first, one->node, key.second, format_bytes(peak), peak / usual,
                   format_bytes(usual), rules.max_memory_fleet_ratio))
          .arm = key.second;
    }
  }
}

// --- completeness

// A case that some nodes have and others lack or refused.
void judge_presence(const std::vector<NodeObservation>& all, FindingList& list) {
  std::map<std::string, std::set<std::string>> ran;  // case -> nodes
  std::map<std::string, const NodeObservation*> nodes;
  for (const NodeObservation& one : all) {
    nodes.emplace(one.node, &one);
    if (one.one_node && one.record->verdict.status != Status::skipped)
      ran[one.case_id].insert(one.node);
  }
  std::set<std::pair<std::string, std::string>> refused;
  for (const NodeObservation& one : all) {
    const auto others = ran.find(one.case_id);
    if (one.record->verdict.status != Status::skipped || others == ran.end() ||
        others->second.contains(one.node))
      continue;
    if (!refused.emplace(one.node, one.case_id).second) continue;
    list.add("cases", "configuration_differs", one,
             fmt::format("{} cannot run on {}, but ran on {}: {}", one.case_id, one.node,
                         format_things(static_cast<int64_t>(others->second.size()), "other node"),
                         one.record->verdict.reason));
  }
  for (const auto& [case_id, have] : ran) {
    for (const auto& [node, one] : nodes) {
      if (have.contains(node) || refused.contains({node, case_id})) continue;
      list.add("cases", "incomplete", *one, fmt::format("{} has no result on {}", case_id, node))
          .case_id = case_id;
    }
  }
}

}  // namespace

std::vector<FleetPosition> judge_fleet(const std::vector<NodeObservation>& all,
                                       const std::vector<std::string>& excluded_nodes,
                                       const AcceptanceRules& rules, FindingList& list) {
  const std::set<std::string> excluded(excluded_nodes.begin(), excluded_nodes.end());
  judge_presence(all, list);
  const std::vector<PeerGroup> whole = comparisons(all, excluded);
  std::set<std::string> with_ranks;
  for (const NodeObservation& one : all) {
    if (!one.ranks.empty()) with_ranks.insert(one.case_id);
  }
  // All comparisons together may accuse a clean fleet no oftener than the rules allow.
  const size_t tests = std::max<size_t>(1, whole.size() + with_ranks.size());
  const double alarm = rules.fleet.false_accusation_ratio / static_cast<double>(tests);
  SlowRanks slow = judge_ranks(all, excluded, alarm, rules, list);
  std::map<std::string, FleetPosition> positions;
  for (const PeerGroup& what : whole) judge_comparison(what, alarm, rules, slow, positions, list);
  judge_memory(all, excluded, rules, list);
  std::vector<FleetPosition> out;
  for (auto& [node, position] : positions) {
    position.node = node;
    out.push_back(std::move(position));
  }
  return out;
}

}  // namespace dettax
