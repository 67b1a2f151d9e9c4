// Ranks beside the others of their node, and beside the same rank of other nodes.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "harness/base/robust.h"
#include "results/analysis/acceptance/fleet_rules.h"

namespace dettax {
namespace {

constexpr size_t kFewestRanksPooled = 8;

struct RankMember {
  const NodeObservation* one = nullptr;
  const RankObservation* rank = nullptr;
  double role = 0;  // what the same rank has on most nodes, as a logarithm
  double beyond_role() const { return rank->excess.value - role; }
};

void note_role(const std::string& case_id, int rank, double role, double least,
               const std::vector<double>& of_nodes, FindingList& list) {
  if (role <= least) return;
  const auto slow = std::ranges::count_if(of_nodes, [&](double excess) { return excess > least; });
  const auto all = std::ssize(of_nodes);
  list.note(
      fmt::format("{}: rank {} takes {:.2f} times its median peer's step on {}: its part of "
                  "the work, held against no node",
                  case_id, rank, std::exp(role),
                  slow == all ? "every node" : fmt::format("{} of {} nodes", slow, all)));
}

// Runs of one node are no peers of each other.
void set_roles(const std::string& case_id, std::vector<RankMember>& members, double least,
               FindingList& list) {
  std::map<int, std::map<std::string, std::vector<double>>> runs;  // rank -> node -> excess
  for (const RankMember& member : members)
    runs[member.rank->rank][member.one->node].push_back(member.rank->excess.value);
  std::map<int, double> role;
  for (const auto& [rank, by_node] : runs) {
    if (by_node.size() < 2) continue;
    std::vector<double> of_nodes;
    for (const auto& [node, values] : by_node) of_nodes.push_back(mean(values));
    // The lower one: of two nodes a straggler of one is not the rank's role.
    role[rank] = lower_median(of_nodes);
    note_role(case_id, rank, role[rank], least, of_nodes, list);
  }
  for (RankMember& member : members) {
    const auto found = role.find(member.rank->rank);
    member.role = found == role.end() ? 0 : found->second;
  }
}

void add_slow(const std::string& case_id, const RankMember& member, double limit, SlowRanks& slow,
              FindingList& list) {
  const RankObservation& rank = *member.rank;
  const std::string elsewhere =
      member.role > std::log(limit)
          ? fmt::format(", {:.2f} times on most nodes", std::exp(member.role))
          : "";
  AcceptanceFinding& found = list.add(
      "stragglers", "slow_rank", *member.one,
      fmt::format("{} on {}: rank {} takes {:.2f} times its median peer's step{}, limit {:.2f}{}",
                  case_id, rank.node, rank.rank, std::exp(rank.excess.value), elsewhere, limit,
                  bits_words(*member.one->record)));
  found.rank = rank.rank;
  found.node = rank.node;
  slow.emplace(std::pair(rank.node, case_id), list.findings().size() - 1);
}

void judge_group(const std::string& case_id, std::vector<RankMember>& members, double alarm_share,
                 const AcceptanceRules& rules, SlowRanks& slow, FindingList& list) {
  const double least = std::log(rules.max_rank_ratio);
  set_roles(case_id, members, least, list);
  std::vector<PeerValue> values;
  for (const RankMember& member : members)
    values.push_back({member.beyond_role(), member.rank->excess.standard_error});
  std::optional<PeerComparison> pooled;
  if (values.size() >= kFewestRanksPooled) pooled = compare_with_peers(values, alarm_share);
  for (size_t i = 0; i < members.size(); ++i) {
    const RankMember& member = members[i];
    const PeerValue& excess = member.rank->excess;
    // A rank that has less to do than the others holds nobody up.
    const double beyond = excess.value - std::max(0.0, member.role);
    const bool over = beyond - kSure * excess.standard_error > least;
    if (!over || (pooled && pooled->deviation[i] <= pooled->cut[i])) {
      list.keep("stragglers");
    } else {
      add_slow(case_id, member, rules.max_rank_ratio, slow, list);
    }
  }
}

}  // namespace

SlowRanks judge_ranks(const std::vector<NodeObservation>& all, const FleetSetup& setup,
                      double alarm_share, const AcceptanceRules& rules, FindingList& list) {
  std::map<std::pair<std::string, std::string>, std::vector<RankMember>> groups;  // case, group
  for (const NodeObservation& one : all) {
    if (setup.excluded.contains(one.node)) continue;
    for (const RankObservation& rank : one.ranks)
      groups[{one.case_id, setup.group_of(one.node)}].push_back({&one, &rank});
  }
  SlowRanks slow;
  for (auto& [key, members] : groups)
    judge_group(key.first, members, alarm_share, rules, slow, list);
  return slow;
}

}  // namespace dettax
