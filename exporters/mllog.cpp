// Lines of MLPerf's log format. A case is a run: run_start, what was set, every measured block, what came out, run_stop. All lines of a
// case name it in their metadata. Only a case that passed stops with success.
#include <algorithm>
#include <cmath>
#include <ostream>

#include <fmt/format.h>

#include "exporters/exporter.h"
#include "exporters/json_writer.h"
#include "exporters/step_times.h"
#include "exporters/tax_state.h"
#include "exporters/utc.h"

namespace dettax {
namespace {

// Writes the lines of one case.
class CaseLog {
 public:
  CaseLog(std::ostream& out, const Record& record)
      : out_(out),
        record_(record),
        start_ms_(std::llround(1e3 * seconds_of_utc(record.environment.started_at).value_or(0))) {}

  void write() {
    interval("INTERVAL_START", "run_start", 0, {});
    settings();
    blocks();
    results();
    interval("INTERVAL_END", "run_stop", end_seconds(), {{"status", run_status()}});
  }

 private:
  using Extra = std::vector<std::pair<std::string, std::string>>;

  double end_seconds() const {
    double last = 0;
    for (const ArmResult& arm : record_.arms) {
      for (const Block& block : arm.blocks) last = std::max(last, end_of(block));
    }
    return std::isfinite(record_.duration_seconds) ? std::max(record_.duration_seconds, last)
                                                   : last;
  }

  const char* run_status() const {
    return record_.verdict.status == Status::pass ? "success" : "aborted";
  }

  static double end_of(const Block& block) {
    double seconds = 0;
    for (const double step : step_times(block)) seconds += step;
    return block.start_seconds + seconds;
  }

  // Up to the value; the caller writes it and calls end().
  JsonWriter begin(const char* event, const std::string& key, double at_seconds) {
    out_ << ":::MLLOG ";
    JsonWriter json(out_);
    json.begin_object();
    json.member("namespace", "");
    json.member("time_ms", start_ms_ + int64_t{std::llround(1e3 * at_seconds)});
    json.member("event_type", event);
    json.member("key", key);
    json.key("value");
    return json;
  }

  void end(JsonWriter& json, const Extra& extra) {
    json.key("metadata").begin_object();
    json.member("file", record_.case_id + ".json");
    json.member("lineno", 1);
    json.member("case", record_.case_id);
    for (const auto& [name, value] : extra) json.member(name, value);
    json.end_object();
    json.end_object();
    out_ << "\n";
  }

  void interval(const char* event, const char* key, double at_seconds, const Extra& extra) {
    JsonWriter json = begin(event, key, at_seconds);
    json.null();
    end(json, extra);
  }

  template <class T>
  void point(const std::string& key, const T& value, const Extra& extra = {}, double at = 0) {
    JsonWriter json = begin("POINT_IN_TIME", key, at);
    if constexpr (std::is_same_v<T, double>) {
      json.number(value);
    } else {
      json.value(value);
    }
    end(json, extra);
  }

  void settings() {
    point("config_filename", record_.suite);
    const Case& planned = record_.planned;
    if (planned.model.name.empty()) return;  // never planned in full
    point("seed", planned.seed);
    point("global_batch_size", planned.batch.global);
    point("micro_batch_size", planned.batch.micro);
    point("gradient_accumulation_steps", planned.micro_batches());
    point("tensor_parallelism", planned.layout.tp);
    point("pipeline_parallelism", planned.layout.pp);
    point("context_parallelism", planned.layout.cp);
    point("expert_parallelism", planned.layout.ep);
    point("max_sequence_length", planned.batch.sequence_length);
    point("dettax_model", planned.model.name);
    point("dettax_precision", to_string(planned.precision));
    point("dettax_layout", to_string(planned.layout));
  }

  // In the order in which they ran.
  void blocks() {
    std::vector<std::pair<const Block*, const ArmResult*>> all;
    for (const ArmResult& arm : record_.arms) {
      for (const Block& block : arm.blocks) all.emplace_back(&block, &arm);
    }
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return a.first->position < b.first->position;
    });
    for (const auto& [block, arm] : all) {
      Extra extra{{"arm", arm->arm},
                  {"round", std::to_string(block->round)},
                  {"steps", std::to_string(step_times(*block).size())}};
      if (block->repeated) extra.emplace_back("left_out", "disturbed");
      interval("INTERVAL_START", "block_start", block->start_seconds, extra);
      interval("INTERVAL_END", "block_stop", end_of(*block), extra);
    }
  }

  void results() {
    const double at = end_seconds();
    for (const ArmResult& arm : record_.arms) {
      const Estimate* time = speed_of(record_, arm);
      if (time == nullptr) continue;
      point("dettax_step_time_seconds", time->value, {{"arm", arm.arm}}, at);
    }
    for (const Tax& tax : record_.taxes) {
      const TaxState state = tax_state(record_, tax);
      const Extra arm{{"arm", tax.arm}};
      point("dettax_tax", to_string(state), arm, at);
      if (has_value(state)) point("dettax_overhead_ratio", tax.overhead_ratio.value, arm, at);
      if (!has_interval(state)) continue;
      point("dettax_overhead_ci_low_ratio", tax.overhead_ratio.low, arm, at);
      point("dettax_overhead_ci_high_ratio", tax.overhead_ratio.high, arm, at);
    }
    for (const std::string& line : caveats(record_)) point("dettax_caveat", line, {}, at);
    point("dettax_verdict", to_string(record_.verdict.status),
          {{"reason_code", record_.verdict.reason_code}, {"reason", record_.verdict.reason}}, at);
  }

  std::ostream& out_;
  const Record& record_;
  int64_t start_ms_;
};

}  // namespace

void write_mllog(std::ostream& out, const std::vector<Record>& records, const ExportSettings&) {
  for (const Record& record : records) CaseLog(out, record).write();
}

}  // namespace dettax
