#pragma once

#include <string>
#include <vector>

#include "results/analysis/acceptance/acceptance.h"

namespace dettax {

// The findings and counts of rules as they are judged. Of one about a node of the fleet the fleet's parts are in fleet_rules.cpp, those
// of a record alone in case_rules.cpp.
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
// What nodes break beside each other. Nodes of `excluded` are set up differently and take no part.
struct FleetPosition {  // logarithms
  std::string node;
  std::vector<double> fast, overhead;
};
std::vector<FleetPosition> judge_fleet(const std::vector<NodeObservation>& all,
                                       const std::vector<std::string>& excluded,
                                       const AcceptanceRules& rules, FindingList& list);

}  // namespace dettax
