// Ledgers of nodes that are set up alike: each is one more repetition of the others.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "harness/base/text.h"
#include "results/analysis/acceptance/findings.h"
#include "results/provenance.h"
#include "results/run_folder.h"

namespace dettax {

bool reproduced(const ArmEvidence& evidence) {
  const bool scopes = std::ranges::none_of(
      evidence.scopes, [](const ScopeEvidence& scope) { return scope.tested && !scope.equal; });
  return evidence.reproducible && scopes && (!evidence.ranks.tested || evidence.ranks.equal);
}

namespace {

struct Group {
  std::string case_id, arm;
  std::map<std::string, std::set<std::string>> digests;  // node -> of its runs
  std::map<std::string, const NodeObservation*> first;   // node -> its first record
};

// Entries that two ledgers have in common: a ledger of another depth has others, and another digest.
int64_t entries(const ArmEvidence& evidence) {
  for (const ScopeEvidence& scope : evidence.scopes) {
    if (scope.tested && scope.runs > 1) return scope.compared / (scope.runs - 1);
  }
  return 0;
}

// All that must be equal for bits to be.
std::string conditions(const Record& record, const ArmResult& arm, const ArmEvidence& evidence) {
  Record only;
  only.planned = record.planned;
  only.planned.data.path.clear();  // a text is what it holds
  std::string text =
      fmt::format("{}\n{}\n{}\n{}\n{}\n", record.environment.tool_version,
                  record.environment.git_commit, arm.mode_hash, entries(evidence), to_json(only));
  for (const auto& [name, value] : provenance(record.environment))
    text += fmt::format("{}={}\n", name, value);
  for (const auto& [name, value] : arm.engaged) text += fmt::format("{} engaged {}\n", name, value);
  return text;
}

std::vector<Group> groups_of(const std::vector<NodeObservation>& all) {
  std::map<std::tuple<std::string, std::string, std::string>, Group> groups;
  for (const NodeObservation& one : all) {
    if (!one.one_node) continue;  // its bits are no single node's
    for (const ArmResult& arm : one.record->arms) {
      const ArmEvidence* evidence = find_evidence(*one.record, arm.arm);
      if (!arm.claims_reproducible || evidence == nullptr || !evidence->reproducible ||
          evidence->ledger_digest.empty())
        continue;
      Group& group =
          groups[{one.case_id, arm.arm, hash_text(conditions(*one.record, arm, *evidence))}];
      group.case_id = one.case_id;
      group.arm = arm.arm;
      group.digests[one.node].insert(evidence->ledger_digest);
      group.first.emplace(one.node, &one);
    }
  }
  std::vector<Group> out;
  for (auto& [key, group] : groups) out.push_back(std::move(group));
  return out;
}

std::string split_words(const std::map<std::string, std::vector<std::string>>& nodes_of) {
  constexpr size_t kShown = 8;
  std::vector<std::string> parts;
  for (const auto& [digest, nodes] : nodes_of) {
    std::vector<std::string> shown(
        nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(std::min(nodes.size(), kShown)));
    if (nodes.size() > kShown) shown.push_back(fmt::format("{} more", nodes.size() - kShown));
    parts.push_back(fmt::format("{} on {}", digest, join(shown, ", ")));
  }
  return join(parts, "; ");
}

// Between nodes that have each one digest. Of two halves nobody can say which computes right.
void judge_nodes(const Group& group, FindingList& list) {
  std::map<std::string, std::vector<std::string>> nodes_of;  // digest -> nodes
  size_t count = 0;
  for (const auto& [node, digests] : group.digests) {
    if (digests.size() > 1) continue;
    nodes_of[*digests.begin()].push_back(node);
    ++count;
  }
  if (count < 2) return;
  const auto most =
      std::ranges::max_element(nodes_of, {}, [](const auto& entry) { return entry.second.size(); });
  if (2 * most->second.size() <= count) {
    AcceptanceFinding& found =
        list.add("evidence", "bits_differ", {},
                 fmt::format("{}: the bits of {} differ between nodes that are set up alike, and "
                             "no majority says which are right: {}",
                             group.case_id, group.arm, split_words(nodes_of)));
    found.case_id = group.case_id;
    found.arm = group.arm;
    return;
  }
  for (const auto& [digest, nodes] : nodes_of) {
    for (const std::string& node : nodes) {
      if (digest == most->first) {
        list.keep("evidence");
        continue;
      }
      list.add(
              "evidence", "bits_differ", *group.first.at(node),
              fmt::format("{} on {}: {} reproduces its bits there, but they are not those of {} "
                          "nodes that are set up alike: ledger {} against {}",
                          group.case_id, node, group.arm, most->second.size(), digest, most->first))
          .arm = group.arm;
    }
  }
}

}  // namespace

void judge_bits(const std::vector<NodeObservation>& all, FindingList& list) {
  for (const Group& group : groups_of(all)) {
    for (const auto& [node, digests] : group.digests) {
      if (digests.size() < 2) continue;
      list.add("evidence", "not_reproducible", *group.first.at(node),
               fmt::format("{} on {}: {} reproduces its bits in each run, but not from one run to "
                           "another: ledgers {}",
                           group.case_id, node, group.arm,
                           join(std::vector<std::string>(digests.begin(), digests.end()), ", ")))
          .arm = group.arm;
    }
    judge_nodes(group, list);
  }
}

}  // namespace dettax
