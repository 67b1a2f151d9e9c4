#include "results/analysis/acceptance/observe.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "harness/base/quantiles.h"
#include "harness/base/robust.h"

namespace dettax {
namespace {

constexpr double kConfidence = 0.95;
constexpr const char* kUnknownNode = "unknown node";

std::set<std::string> hosts_of(const Record& record) {
  std::set<std::string> hosts;
  for (const ArmResult& arm : record.arms) {
    for (const RankPlace& place : arm.places) {
      if (!place.host.empty()) hosts.insert(place.host);
    }
  }
  return hosts;
}

std::string host_of_rank(const ArmResult& arm, int rank, const std::string& otherwise) {
  const auto place = std::ranges::find(arm.places, rank, &RankPlace::rank);
  return place == arm.places.end() || place->host.empty() ? otherwise : place->host;
}

// [rank] mean over the block's steps; empty if it has not the same steps of every rank.
std::vector<double> block_excess(const Block& block) {
  const auto& times = block.step_time_seconds;
  const size_t steps = times.empty() ? 0 : times.front().size();
  std::vector<double> excess(times.size(), 0);
  for (size_t step = 0; step < steps; ++step) {
    std::vector<double> logs;
    for (const auto& rank : times) {
      if (rank.size() != steps || !(rank[step] > 0)) return {};
      logs.push_back(std::log(rank[step]));
    }
    const double middle = lower_median(logs);
    for (size_t rank = 0; rank < logs.size(); ++rank)
      excess[rank] += (logs[rank] - middle) / static_cast<double>(steps);
  }
  return steps == 0 ? std::vector<double>{} : excess;
}

std::vector<RankObservation> rank_excess(const ArmResult& arm, const std::string& node) {
  std::vector<std::vector<double>> by_rank;
  for (const Block& block : arm.blocks) {
    if (block.repeated) continue;
    const std::vector<double> excess = block_excess(block);
    if (excess.size() < 2) continue;
    by_rank.resize(excess.size());
    for (size_t rank = 0; rank < excess.size(); ++rank) by_rank[rank].push_back(excess[rank]);
  }
  std::vector<RankObservation> found;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    const auto count = static_cast<double>(by_rank[rank].size());
    const double scatter = robust_scale(by_rank[rank]);
    const int number = static_cast<int>(rank);
    found.push_back({number,
                     host_of_rank(arm, number, node),
                     {median(by_rank[rank]), scatter / std::sqrt(count)}});
  }
  return found;
}

bool usable(const Estimate& estimate) {
  return std::isfinite(estimate.value) && estimate.low > 0 && estimate.low <= estimate.value &&
         estimate.value <= estimate.high && std::isfinite(estimate.high) && estimate.count >= 0;
}

NodeObservation observation(const Record& record, int attempts) {
  NodeObservation one;
  one.node = node_of(record);
  one.case_id = record.case_id;
  one.record = &record;
  one.attempts = attempts;
  one.one_node = hosts_of(record).size() <= 1;
  const ArmResult* fast = find_arm(record, "fast");
  if (fast != nullptr && fast->failure_code.empty()) {
    if (fast->step_time_seconds && usable(*fast->step_time_seconds))
      one.fast_seconds = log_of(*fast->step_time_seconds);
    one.ranks = rank_excess(*fast, one.node);
  }
  // Where fast differed from itself its ratio to another arm says nothing.
  if (record.verdict.reason_code == "control_differs") return one;
  for (const Tax& tax : record.taxes) {
    if (tax.published && usable(tax.overhead_ratio))
      one.overhead[tax.arm] = log_of(tax.overhead_ratio);
  }
  return one;
}

std::vector<NodeObservation> in_order(std::vector<NodeObservation> all) {
  std::map<std::string, std::string> node_of_run;
  for (const NodeObservation& one : all) {
    if (!one.node.empty()) node_of_run.emplace(one.record->run_id, one.node);
  }
  for (NodeObservation& one : all) {
    if (!one.node.empty()) continue;
    const auto known = node_of_run.find(one.record->run_id);
    one.node = known == node_of_run.end() ? kUnknownNode : known->second;
  }
  std::ranges::stable_sort(all, {}, [](const NodeObservation& one) {
    return std::tuple(one.node, one.case_id, one.record->run_id,
                      one.record->environment.started_at);
  });
  return all;
}

}  // namespace

std::string node_of(const Record& record) {
  const std::set<std::string> hosts = hosts_of(record);
  return hosts.size() == 1 ? *hosts.begin() : record.environment.host;
}

PeerValue log_of(const Estimate& estimate) {
  PeerValue value{std::log(estimate.value), 0};
  if (estimate.count < 2) return value;
  const double quantile =
      student_t_quantile((1 + kConfidence) / 2, static_cast<double>(estimate.count - 1));
  value.standard_error = std::log(estimate.high / estimate.low) / (2 * quantile);
  return value;
}

std::vector<NodeObservation> observe(const std::vector<AcceptanceInput>& inputs) {
  std::vector<NodeObservation> all;
  for (const AcceptanceInput& input : inputs)
    all.push_back(observation(input.record, input.attempts));
  return in_order(std::move(all));
}

std::vector<NodeObservation> observe(const std::vector<const Record*>& records) {
  std::vector<NodeObservation> all;
  for (const Record* record : records) all.push_back(observation(*record, 1));
  return in_order(std::move(all));
}

}  // namespace dettax
