#include "results/analysis/acceptance/acceptance.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/robust.h"
#include "harness/base/text.h"
#include "results/analysis/acceptance/configuration.h"
#include "results/analysis/acceptance/findings.h"
#include "results/reason.h"

namespace dettax {
namespace {

const std::vector<std::string>& rule_names() {
  static const std::vector<std::string> kNames = {
      "cases", "configuration", "tax",    "throughput", "baseline",
      "fleet", "stragglers",    "memory", "evidence",   "attempts"};
  return kNames;
}

constexpr const char* kAcceptanceRun = "acceptance";  // no run folder has such a name
constexpr std::string_view kNodePrefix = "node:";
constexpr const char* kHardwareCodes[] = {"slow_node", "odd_ratio", "slow_rank", "bits_differ"};

bool is_hardware(const AcceptanceFinding& finding) {
  return std::ranges::any_of(kHardwareCodes,
                             [&](const char* code) { return finding.code == code; });
}

FleetSetup judge_configuration(const std::vector<NodeObservation>& all, FindingList& list) {
  FleetSetup setup;
  std::set<std::string> nodes;
  for (const NodeObservation& one : all) {
    if (!one.record->arms.empty()) nodes.insert(one.node);
  }
  for (const ConfigurationDifference& difference : configuration_differences(all)) {
    NodeObservation where;
    where.node = difference.node;
    const std::string words =
        difference.node.empty()
            ? fmt::format("the nodes differ in {}: {}; only nodes alike in it are compared",
                          difference.setting, difference.value)
            : fmt::format(
                  "configuration differs from the fleet: {} is {} on {}, {} elsewhere; its "
                  "times are not held against its hardware",
                  difference.setting, difference.value, difference.node, difference.fleet_value);
    list.add("configuration", "configuration_differs", where, words);
    if (!difference.node.empty()) setup.excluded.insert(difference.node);
    for (const auto& [node, value] : difference.value_of)
      setup.group[node] += fmt::format("{}={}\n", difference.setting, value);
  }
  if (nodes.size() < 2) {
    list.explain("configuration", "one node has no others to differ from");
  } else {
    for (const std::string& node : nodes) {
      if (!setup.excluded.contains(node)) list.keep("configuration");
    }
  }
  return setup;
}

void judge_baseline(const std::vector<NodeObservation>& all, const AcceptanceRules& rules,
                    const AcceptanceContext& context, FindingList& list) {
  if (context.baseline == nullptr) return list.explain("baseline", "none was given");
  std::vector<Record> records;
  for (const NodeObservation& one : all) records.push_back(*one.record);
  BaselineSettings settings = rules.baseline;
  settings.force = context.force_baseline;
  const BaselineCheck check = check_baseline(*context.baseline, records, settings);
  if (!check.provenance_differences.empty() && !settings.force) {
    list.add("baseline", "configuration_differs", {},
             "the baseline is of another platform or setting: " +
                 join(check.provenance_differences, "; "));
    return;
  }
  for (const BaselineCheckRow& row : check.rows) {
    if (row.status == Status::pass) {
      list.keep("baseline");
      continue;
    }
    NodeObservation where;
    where.node = row.node;
    where.case_id = row.case_id;
    const char* code = row.status == Status::fail           ? "changed"
                       : row.status == Status::inconclusive ? "not_resolved"
                                                            : "incomplete";
    list.add(
            "baseline", code, where,
            fmt::format("{} on {}: {}{}", row.case_id, row.node,
                        row.quantity.empty() ? "" : row.arm + " " + row.quantity + ": ", row.words))
        .arm = row.arm;
  }
}

void judge_context(const AcceptanceContext& context, const AcceptanceRules& rules,
                   FindingList& list) {
  if (!context.not_idle.empty()) list.add("idle", "not_idle", {}, context.not_idle);
  for (const CollectiveTable& table : context.collectives) {
    const CollectiveVerdict verdict = judge_collective(table, rules);
    list.note(verdict.words);
    if (!verdict.code.empty()) {
      list.add("bandwidth", verdict.code, {}, verdict.words);
    } else if (verdict.wide_enough) {
      list.keep("bandwidth");
    } else {
      list.explain("bandwidth", verdict.words);
    }
  }
}

NodeVerdict verdict_of(const std::string& node, const std::vector<NodeObservation>& all,
                       const std::vector<AcceptanceFinding>& findings,
                       const std::vector<FleetPosition>& positions) {
  NodeVerdict verdict;
  verdict.node = node;
  std::vector<std::string> words;
  bool ran = false, misconfigured = false;
  for (const NodeObservation& one : all) {
    if (one.node != node) continue;
    ++verdict.cases;
    verdict.attempts += one.attempts;
    ran = ran || one.record->verdict.status != Status::skipped;
  }
  verdict.status = ran ? Status::pass : Status::skipped;
  verdict.exit_code = ran ? ExitCode::pass : ExitCode::skipped;
  verdict.code = ran ? "accepted" : "refused";
  for (const AcceptanceFinding& finding : findings) {  // worst first
    if (finding.node != node) continue;
    if (words.empty()) {
      verdict.status = finding.status;
      verdict.exit_code = finding.exit_code;
      verdict.code = finding.code;
    }
    words.push_back(finding.words);
    verdict.hardware = verdict.hardware || is_hardware(finding);
    misconfigured = misconfigured || finding.rule == "configuration";
  }
  verdict.hardware = verdict.hardware && !misconfigured;
  verdict.words = join(words, "; ");
  const auto position = std::ranges::find(positions, node, &FleetPosition::node);
  if (position != positions.end()) {
    if (!position->fast.empty()) verdict.fast_ratio = std::exp(mean(position->fast));
    if (!position->overhead.empty()) verdict.odd_ratio = std::exp(mean(position->overhead));
  }
  return verdict;
}

void explain_idle_rules(const std::vector<NodeObservation>& all, const AcceptanceRules& rules,
                        FindingList& list) {
  std::set<std::string> nodes;
  for (const NodeObservation& one : all) nodes.insert(one.node);
  list.explain("fleet", nodes.size() < 2
                            ? "one node has no fleet to be compared with"
                            : "no case was measured on two nodes that are set up alike");
  list.explain("stragglers", "no case has several ranks");
  list.explain("tax", "no tax was published, or no limit is for it");
  const bool limited = std::ranges::any_of(
      rules.limits, [](const CaseLimit& limit) { return limit.min_tokens_per_second.has_value(); });
  list.explain("throughput", limited ? "no case of its limits was measured" : "no limit was given");
}

}  // namespace

AcceptanceFinding& FindingList::add(const std::string& rule, const std::string& code,
                                    const NodeObservation& where, const std::string& words) {
  const ReasonInfo& info = reason_info(code);
  AcceptanceFinding finding;
  finding.rule = rule;
  finding.code = code;
  finding.node = where.node;
  finding.case_id = where.case_id;
  finding.words = words;
  finding.status = info.status;
  finding.exit_code = info.exit_code;
  findings_.push_back(std::move(finding));
  count(rule, false);
  return findings_.back();
}

void FindingList::explain(const std::string& rule, const std::string& words) {
  RuleSummary& one = summary(rule);
  if (one.judged == 0) one.words = words;
}

RuleSummary& FindingList::summary(const std::string& rule) {
  const auto found = std::ranges::find(summaries_, rule, &RuleSummary::rule);
  if (found != summaries_.end()) return *found;
  summaries_.emplace_back().rule = rule;
  return summaries_.back();
}

void FindingList::count(const std::string& rule, bool kept) {
  RuleSummary& one = summary(rule);
  ++one.judged;
  one.kept += kept ? 1 : 0;
  one.words.clear();
}

Acceptance judge_acceptance(const std::vector<AcceptanceInput>& inputs,
                            const AcceptanceRules& rules, const AcceptanceContext& context) {
  FindingList list;
  for (const std::string& rule : rule_names()) list.explain(rule, "nothing to judge");
  const std::vector<NodeObservation> all = observe(inputs);
  for (const NodeObservation& one : all) judge_case(one, rules, list);
  judge_limits_used(all, rules, list);
  judge_bits(all, list);
  const FleetSetup setup = judge_configuration(all, list);
  const std::vector<FleetPosition> positions = judge_fleet(all, setup, rules, list);
  judge_baseline(all, rules, context, list);
  judge_context(context, rules, list);
  explain_idle_rules(all, rules, list);

  Acceptance acceptance;
  acceptance.rules = rules.name;
  acceptance.summaries = list.summaries();
  acceptance.notes = context.notes;
  acceptance.notes.insert(acceptance.notes.end(), list.notes().begin(), list.notes().end());
  acceptance.findings = list.findings();
  std::ranges::stable_sort(acceptance.findings, {}, [](const AcceptanceFinding& f) {
    return std::tuple(severity(f.exit_code), f.node, f.case_id, f.arm, f.rule);
  });
  std::set<std::string> nodes;
  for (const NodeObservation& one : all) nodes.insert(one.node);
  for (const AcceptanceFinding& finding : acceptance.findings) {
    if (!finding.node.empty()) nodes.insert(finding.node);
  }
  std::vector<ExitCode> codes;
  for (const std::string& node : nodes) {
    acceptance.nodes.push_back(verdict_of(node, all, acceptance.findings, positions));
    codes.push_back(acceptance.nodes.back().exit_code);
  }
  for (const AcceptanceFinding& finding : acceptance.findings) codes.push_back(finding.exit_code);
  // Judging nothing accepts nothing.
  acceptance.exit_code = codes.empty() ? ExitCode::infrastructure : combine(codes);
  const auto worst =
      std::ranges::find(acceptance.findings, acceptance.exit_code, &AcceptanceFinding::exit_code);
  acceptance.status = worst != acceptance.findings.end()          ? worst->status
                      : acceptance.exit_code == ExitCode::pass    ? Status::pass
                      : acceptance.exit_code == ExitCode::skipped ? Status::skipped
                                                                  : Status::error;
  return acceptance;
}

bool is_acceptance(const Record& record) { return record.run_id == kAcceptanceRun; }

std::optional<std::string> judged_node(const Record& record) {
  if (!is_acceptance(record) || !record.case_id.starts_with(kNodePrefix)) return std::nullopt;
  return record.case_id.substr(kNodePrefix.size());
}

std::vector<Record> acceptance_records(const Acceptance& acceptance) {
  std::vector<Record> records;
  const auto add = [&](const std::string& id, const std::string& code, Status status, ExitCode exit,
                       const std::string& words) {
    Record record;
    record.run_id = record.suite = kAcceptanceRun;
    record.case_id = id;
    record.verdict = make_verdict(code, words);
    record.verdict.status = status;
    record.verdict.exit_code = static_cast<int>(exit);
    records.push_back(std::move(record));
  };
  for (const NodeVerdict& node : acceptance.nodes)
    add(std::string(kNodePrefix) + node.node, node.code, node.status, node.exit_code, node.words);
  for (const AcceptanceFinding& finding : acceptance.findings) {
    if (finding.node.empty())
      add("rule:" + finding.rule, finding.code, finding.status, finding.exit_code, finding.words);
  }
  return records;
}

std::vector<std::string> drain_command(const NodeVerdict& node) {
  const bool plain =
      !node.node.empty() && node.node.front() != '-' && std::ranges::all_of(node.node, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '-' || c == '_';
      });
  if (!node.hardware || !plain) return {};
  return {"scontrol", "update", "NodeName=" + node.node, "State=DRAIN",
          "Reason=dettax:" + node.code};
}

}  // namespace dettax
