#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/exit_code.h"
#include "results/analysis/acceptance/baseline.h"
#include "results/analysis/acceptance/collectives.h"
#include "results/analysis/acceptance/observe.h"
#include "results/analysis/acceptance/rules.h"

namespace dettax {

// Something that keeps a cluster from being accepted as it is.
struct AcceptanceFinding {
  std::string
      rule;  // cases | tax | throughput | baseline | fleet | stragglers | memory | evidence | configuration | attempts | idle |
             // bandwidth
  std::string code;                // of reason.h
  std::string node, case_id, arm;  // empty where it is about none
  std::optional<int> rank;
  std::string words;  // a sentence that names them
  Status status = Status::error;
  ExitCode exit_code = ExitCode::internal;
};

// How often a rule had something to judge. A rule that judged nothing is no rule kept: `words` says why.
struct RuleSummary {
  std::string rule;
  int64_t judged = 0, kept = 0;
  std::string words;
};

struct NodeVerdict {
  std::string node;
  Status status = Status::error;
  ExitCode exit_code = ExitCode::internal;
  std::string code;   // of its worst finding; accepted without one
  std::string words;  // all of its findings
  int64_t cases = 0, attempts = 0;
  bool hardware =
      false;  // suspected: slow, odd, with a slow rank or other bits, and set up as the others are
  std::optional<double> fast_ratio;  // its fast step over the fleet's median, mean over cases
  std::optional<double>
      odd_ratio;  // its deterministic ratio over the fleet's median, mean over cases and arms
};

struct Acceptance {
  std::string rules;
  std::vector<RuleSummary> summaries;
  std::vector<AcceptanceFinding> findings;  // worst first, then by node, case, arm
  std::vector<NodeVerdict> nodes;           // by name
  std::vector<std::string> notes;           // what qualifies the verdict
  Status status = Status::error;
  ExitCode exit_code = ExitCode::internal;
};

// What is judged beside the records.
struct AcceptanceContext {
  const Baseline* baseline = nullptr;  // null: none was given
  bool force_baseline = false;         // though its provenance differs
  std::vector<CollectiveTable> collectives;
  std::vector<std::string>
      notes;             // of how the records came about: stages in their order, cells left out
  std::string not_idle;  // that the machine did not settle, in words; empty if it did
};

// The verdict on records of one node or of many: a function of its arguments alone, whatever the order of the inputs. Every record
// counts: of several runs of a case on a node one that passes does not make up for one that fails.
Acceptance judge_acceptance(const std::vector<AcceptanceInput>& inputs,
                            const AcceptanceRules& rules, const AcceptanceContext& context = {});

// A record a node (and one for what is about no node), so that every exporter shows the verdict beside the cases'.
std::vector<Record> acceptance_records(const Acceptance& acceptance);
// Whether a record is one of these, and the node that it is of, if of one.
bool is_acceptance(const Record& record);
std::optional<std::string> judged_node(const Record& record);

std::string acceptance_json(const Acceptance& acceptance);

// What takes a node out of Slurm, for nodes whose hardware is suspected; empty for a name that Slurm could not have. Nobody runs it
// unless asked to.
std::vector<std::string> drain_command(const NodeVerdict& node);

}  // namespace dettax
