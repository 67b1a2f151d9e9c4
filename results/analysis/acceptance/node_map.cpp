#include "results/analysis/acceptance/node_map.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "harness/base/exit_code.h"
#include "harness/base/format.h"
#include "harness/base/robust.h"
#include "harness/base/text.h"
#include "results/analysis/acceptance/acceptance.h"
#include "results/analysis/acceptance/findings.h"
#include "results/analysis/acceptance/peer_groups.h"

namespace dettax {
namespace {

constexpr double kFalseMarks = 0.01;
constexpr size_t kFewestPeers = 4;

struct Node {
  NodeMapRow row;
  std::set<std::string> cases;
  std::vector<double> fast, odd, overhead;  // logarithms
  const Record* worst = nullptr;
  std::vector<std::string> stands_out;
};

std::optional<double> mean_ratio(const std::vector<double>& logs) {
  return logs.empty() ? std::nullopt : std::optional(std::exp(mean(logs)));
}

void add_record(const NodeObservation& one, Node& node) {
  const Record& record = *one.record;
  node.cases.insert(one.case_id);
  const auto place = [](const Record& of) {
    return severity(static_cast<ExitCode>(of.verdict.exit_code));
  };
  if (node.worst == nullptr || place(record) < place(*node.worst)) node.worst = &record;
  for (const ArmResult& arm : record.arms) {
    if (!arm.claims_reproducible) continue;
    const ArmEvidence* evidence = find_evidence(record, arm.arm);
    ++node.row.claiming;
    node.row.reproduced += evidence != nullptr && reproduced(*evidence) ? 1 : 0;
  }
}

void add_places(const PeerGroup& group, double alarm, std::map<std::string, Node>& nodes) {
  const size_t n = group.members.size();
  const std::vector<PeerValue> values = group.values();
  std::vector<double> logs;
  for (const PeerValue& value : values) logs.push_back(value.value);
  const double usual = median(logs);
  std::optional<PeerComparison> peers;
  if (n >= kFewestPeers) peers = compare_with_peers(values, alarm);
  for (size_t i = 0; i < n; ++i) {
    Node& node = nodes[group.members[i].one->node];
    const double deviation = logs[i] - usual;
    if (!group.fast()) node.overhead.push_back(logs[i]);
    if (n > 1) (group.fast() ? node.fast : node.odd).push_back(deviation);
    if (peers && peers->odd(i))
      node.stands_out.push_back(fmt::format("{}: {} is {} off", group.case_id, group.quantity(),
                                            format_signed_percent(std::expm1(deviation))));
  }
}

void finish(const std::string& name, Node& node, const Record* judged) {
  NodeMapRow& row = node.row;
  row.node = name;
  row.cases = static_cast<int64_t>(node.cases.size());
  row.fast_ratio = mean_ratio(node.fast);
  row.overhead_ratio = mean_ratio(node.overhead);
  row.odd_ratio = mean_ratio(node.odd);
  const Verdict& verdict = judged != nullptr ? judged->verdict : node.worst->verdict;
  row.status = verdict.status;
  row.verdict = verdict.reason_code;
  row.words = judged != nullptr ? verdict.reason : join(node.stands_out, "; ");
  row.odd = judged != nullptr ? row.status != Status::pass && row.status != Status::skipped
                              : row.status == Status::fail || row.status == Status::error ||
                                    !node.stands_out.empty();
}

}  // namespace

std::vector<NodeMapRow> node_map(const std::vector<const Record*>& records) {
  std::map<std::string, const Record*> judged;  // node -> acceptance's record of it
  std::vector<const Record*> measured;
  for (const Record* record : records) {
    if (const auto name = judged_node(*record)) {
      judged[*name] = record;
    } else if (!is_acceptance(*record)) {
      measured.push_back(record);
    }
  }
  const std::vector<NodeObservation> all = observe(measured);
  std::map<std::string, Node> nodes;
  for (const NodeObservation& one : all) add_record(one, nodes[one.node]);
  if (nodes.size() < 2) return {};
  const std::vector<PeerGroup> groups = peer_groups(all, {});
  const double alarm = kFalseMarks / static_cast<double>(std::max<size_t>(1, groups.size()));
  for (const PeerGroup& group : groups) add_places(group, alarm, nodes);
  std::vector<NodeMapRow> rows;
  for (auto& [name, node] : nodes) {
    const auto verdict = judged.find(name);
    finish(name, node, verdict == judged.end() ? nullptr : verdict->second);
    rows.push_back(node.row);
  }
  std::ranges::stable_partition(rows, &NodeMapRow::odd);
  return rows;
}

}  // namespace dettax
