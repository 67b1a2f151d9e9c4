// RFC 4180: a header, then a row an arm; a case in which no arm ran has one row without an arm. A
// number that does not exist is an empty field, and `tax` says why there is none.
#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>

#include "exporters/escape.h"
#include "exporters/exporter.h"
#include "exporters/tax_state.h"
#include "harness/base/format.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

constexpr std::array kScopes{"same_process",   "relaunch",      "other_allocation",
                             "restart_replay", "other_threads", "other_ranks"};

class Row {
 public:
  explicit Row(std::ostream& out) : out_(out) {}
  void text(std::string_view value) { field(value.empty() ? "" : csv_text(value)); }
  void whole(int64_t value) { field(std::to_string(value)); }
  void number(double value) { field(std::isfinite(value) ? format_number(value) : ""); }
  void none(int fields = 1) {
    for (int i = 0; i < fields; ++i) field("");
  }
  void end() {
    out_ << "\r\n";
    first_ = true;
  }

 private:
  void field(const std::string& value) {
    out_ << (first_ ? "" : ",") << value;
    first_ = false;
  }
  std::ostream& out_;
  bool first_ = true;
};

void header(Row& row) {
  for (const char* name : {"run_id",
                           "suite",
                           "case_id",
                           "model",
                           "precision",
                           "layout",
                           "nodes",
                           "ranks_per_node",
                           "threads_per_rank",
                           "micro_batch",
                           "global_batch",
                           "sequence_length",
                           "seed",
                           "status",
                           "reason_code",
                           "reason",
                           "caveats",
                           "arm",
                           "mode",
                           "mode_hash",
                           "failure_code",
                           "step_time_seconds",
                           "step_time_low_seconds",
                           "step_time_high_seconds",
                           "blocks",
                           "tokens_per_second",
                           "memory_peak_bytes",
                           "tax",
                           "overhead_ratio",
                           "overhead_ci_low",
                           "overhead_ci_high",
                           "rounds",
                           "min_detectable_overhead_ratio"})
    row.text(name);
  for (const char* scope : kScopes) row.text(std::string("bits_") + scope);
  for (const char* name : {"started_at", "duration_seconds", "host", "cpu_model", "git_commit"})
    row.text(name);
  row.end();
}

void write_case(Row& row, const Record& record) {
  const Case& planned = record.planned;
  row.text(record.run_id);
  row.text(record.suite);
  row.text(record.case_id);
  row.text(planned.model.name);
  row.text(to_string(planned.precision));
  row.text(to_string(planned.layout));
  row.whole(planned.topology.nodes);
  row.whole(planned.topology.ranks_per_node);
  row.whole(planned.topology.threads_per_rank);
  row.whole(planned.batch.micro);
  row.whole(planned.batch.global);
  row.whole(planned.batch.sequence_length);
  row.text(std::to_string(planned.seed));
  row.text(to_string(record.verdict.status));
  row.text(record.verdict.reason_code);
  row.text(record.verdict.reason);
  row.text(join(caveats(record), "; "));
}

void write_speed(Row& row, const Record& record, const ArmResult& arm) {
  if (const Estimate* time = speed_of(record, arm); time != nullptr) {
    row.number(time->value);
    row.number(time->low);
    row.number(time->high);
    row.whole(time->count);
    row.number(arm.tokens_per_second);
  } else {
    row.none(5);
  }
  arm.memory_peak_bytes > 0 ? row.whole(arm.memory_peak_bytes) : row.none();
}

void write_tax(Row& row, const Record& record, const ArmResult& arm) {
  const auto tax = std::find_if(record.taxes.begin(), record.taxes.end(),
                                [&](const Tax& one) { return one.arm == arm.arm; });
  if (tax == record.taxes.end()) return row.none(6);
  const TaxState state = tax_state(record, *tax);
  const Estimate& ratio = tax->overhead_ratio;
  row.text(to_string(state));
  has_value(state) ? row.number(ratio.value) : row.none();
  if (has_interval(state)) {
    row.number(ratio.low);
    row.number(ratio.high);
  } else {
    row.none(2);
  }
  row.whole(ratio.count);
  row.number(tax->min_detectable_overhead_ratio);
}

// equal, differ, or empty where it was not tested.
void write_bits(Row& row, const Record& record, const ArmResult& arm) {
  const ArmEvidence* evidence = find_evidence(record, arm.arm);
  for (const char* name : kScopes) {
    const char* word = "";
    if (evidence != nullptr) {
      for (const ScopeEvidence& scope : evidence->scopes) {
        if (scope.scope == name && scope.tested) word = scope.equal ? "equal" : "differ";
      }
    }
    row.text(word);
  }
}

void write_provenance(Row& row, const Record& record) {
  const Environment& environment = record.environment;
  row.text(environment.started_at);
  row.number(record.duration_seconds);
  row.text(environment.host);
  row.text(environment.cpu_model);
  row.text(environment.git_commit);
  row.end();
}

}  // namespace

void write_csv(std::ostream& out, const std::vector<Record>& records, const ExportSettings&) {
  Row row(out);
  header(row);
  for (const Record& record : records) {
    for (const ArmResult& arm : record.arms) {
      write_case(row, record);
      for (const std::string& text : {arm.arm, arm.mode, arm.mode_hash, arm.failure_code})
        row.text(text);
      write_speed(row, record, arm);
      write_tax(row, record, arm);
      write_bits(row, record, arm);
      write_provenance(row, record);
    }
    if (!record.arms.empty()) continue;
    write_case(row, record);
    row.none(16 + static_cast<int>(kScopes.size()));
    write_provenance(row, record);
  }
}

}  // namespace dettax
