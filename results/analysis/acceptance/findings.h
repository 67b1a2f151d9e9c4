#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "results/analysis/acceptance/acceptance.h"

namespace dettax {

// The findings and counts of rules as they are judged.
class FindingList {
 public:
  // Counts one judgement of a rule that was kept.
  void keep(const std::string& rule) { count(rule, true); }
  // A judgement that was not; status and exit code follow from the code's row in reason.h.
  AcceptanceFinding& add(const std::string& rule, const std::string& code,
                         const NodeObservation& where, const std::string& words);
  void note(const std::string& words) { notes_.push_back(words); }
  // Says of a rule why it judged nothing.
  void explain(const std::string& rule, const std::string& words);

  std::vector<AcceptanceFinding>& findings() { return findings_; }
  std::vector<RuleSummary>& summaries() { return summaries_; }
  std::vector<std::string>& notes() { return notes_; }

 private:
  RuleSummary& summary(const std::string& rule);
  void count(const std::string& rule, bool kept);
  std::vector<AcceptanceFinding> findings_;
  std::vector<RuleSummary> summaries_;
  std::vector<std::string> notes_;
};

// What a record breaks by itself.
void judge_case(const NodeObservation& one, const AcceptanceRules& rules, FindingList& list);
// Whether every limit has something to judge.
void judge_limits_used(const std::vector<NodeObservation>& all, const AcceptanceRules& rules,
                       FindingList& list);
// Whether an arm did. What its record says of it as a whole does not outweigh a scope that was tested and differed.
bool reproduced(const ArmEvidence& evidence);
// Whether nodes that are set up alike have equal bits, for arms that claim to reproduce them.
void judge_bits(const std::vector<NodeObservation>& all, FindingList& list);
// Which nodes are compared: excluded ones are set up differently and take no part, others within equal values of the settings that
// have no majority.
struct FleetSetup {
  std::set<std::string> excluded;            // nodes
  std::map<std::string, std::string> group;  // node -> values of such settings; empty without one
  std::string group_of(const std::string& node) const;
};
struct FleetPosition {  // logarithms
  std::string node;
  std::vector<double> fast, overhead;
};
// What nodes break beside each other.
std::vector<FleetPosition> judge_fleet(const std::vector<NodeObservation>& all,
                                       const FleetSetup& setup, const AcceptanceRules& rules,
                                       FindingList& list);

}  // namespace dettax
