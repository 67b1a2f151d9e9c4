// The JSON of Google Benchmark, so that its compare.py and what else reads it reads us. compare.py pairs by name, wants nine
// repetitions for its U test, and a name holds their number: so an arm's blocks make nine stretches, in order of time, however many
// were measured. A stretch's time is that of its median step. An arm whose speed counts for nothing is an error, without a time.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <ostream>

#include <fmt/format.h>

#include "exporters/exporter.h"
#include "exporters/json_writer.h"
#include "exporters/report_order.h"
#include "exporters/step_times.h"
#include "exporters/tax_state.h"

namespace dettax {
namespace {

constexpr size_t kRepetitions = 9;

std::string layout_words(const Layout& layout) {
  std::string words;
  const std::array<std::pair<const char*, int>, 6> axes{{{"dp", layout.dp},
                                                         {"tp", layout.tp},
                                                         {"pp", layout.pp},
                                                         {"cp", layout.cp},
                                                         {"ep", layout.ep},
                                                         {"vp", layout.vp}}};
  for (const auto& [axis, size] : axes) {
    if (size > 1 || std::string_view(axis) == "dp") words += fmt::format("/{}:{}", axis, size);
  }
  if (layout.sequence_parallel) words += "/sp:1";
  if (layout.zero_stage > 0) words += fmt::format("/zero:{}", layout.zero_stage);
  if (layout.schedule == PipelineSchedule::gpipe)
    words += fmt::format("/schedule:{}", to_string(layout.schedule));
  if (layout.recompute != Recompute::none)
    words += fmt::format("/recompute:{}", to_string(layout.recompute));
  return words;
}

// A slash parts the words of a name, so that none may stand inside one.
std::string word(std::string text) {
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

std::string base_name(const Record& record, const std::string& arm) {
  const Case& planned = record.planned;
  if (planned.model.name.empty())
    return fmt::format("dettax/case:{}/mode:{}", word(record.case_id), word(arm));
  const Model& model = planned.model;
  const bool proxy = model.published_layers != 0 && model.layers != model.published_layers;
  std::string name = fmt::format("dettax/model:{}{}{}/threads:{}/batch:{}x{}", word(model.name),
                                 proxy ? fmt::format("-l{}", model.layers) : "",
                                 layout_words(planned.layout), planned.topology.threads_per_rank,
                                 planned.batch.global, planned.batch.sequence_length);
  if (planned.micro_batches() > 1) name += fmt::format("/micro:{}", planned.batch.micro);
  if (planned.backend != Backend::cpu)
    name += fmt::format("/backend:{}", to_string(planned.backend));
  if (!planned.label.empty()) name += "/label:" + word(planned.label);
  return name + fmt::format("/prec:{}/mode:{}", to_string(planned.precision), word(arm));
}

struct Family {
  std::string name;
  int index = 0;
  int repetitions = 1;
  int threads = 1;
};

void begin_entry(JsonWriter& json, const Family& family, const std::string& suffix) {
  json.begin_object();
  json.member("name", family.name + suffix);
  json.member("family_index", family.index);
  json.member("per_family_instance_index", 0);
  json.member("run_name", family.name);
  json.member("run_type", suffix.empty() ? "iteration" : "aggregate");
  json.member("repetitions", family.repetitions);
}

// Time is wall time: the CPU time of a step is not measured.
void write_times(JsonWriter& json, int64_t iterations, double seconds, const char* unit = "ns") {
  const double scale = std::string_view(unit) == "ns" ? 1e9 : 1;
  json.member("iterations", iterations);
  json.number("real_time", seconds * scale);
  json.number("cpu_time", seconds * scale);
  json.member("time_unit", unit);
}

void write_error(JsonWriter& json, Family family, const std::string& message) {
  family.name += "/repeats:1";
  begin_entry(json, family, "");
  json.member("repetition_index", 0);
  json.member("threads", family.threads);
  json.member("error_occurred", true);
  json.member("error_message", message);
  write_times(json, 0, 0);
  json.end_object();
}

void write_counters(JsonWriter& json, const Record& record, const ArmResult& arm) {
  if (std::isfinite(arm.tokens_per_second)) {
    json.number("tokens_per_second", arm.tokens_per_second);
  }
  for (const Tax& tax : record.taxes) {
    if (tax.arm != arm.arm) continue;
    const TaxState state = tax_state(record, tax);
    if (has_value(state)) json.number("overhead_ratio", tax.overhead_ratio.value);
    if (!has_interval(state)) continue;
    json.number("overhead_ci_low", tax.overhead_ratio.low);
    json.number("overhead_ci_high", tax.overhead_ratio.high);
  }
}

void write_aggregates(JsonWriter& json, const Family& family, const Record& record,
                      const ArmResult& arm, const std::vector<double>& seconds) {
  const Moments moments = moments_of(seconds);
  const std::array<std::pair<const char*, double>, 4> all{{{"mean", moments.mean},
                                                           {"median", moments.median},
                                                           {"stddev", moments.stddev},
                                                           {"cv", moments.stddev / moments.mean}}};
  for (const auto& [name, value] : all) {
    if (!std::isfinite(value)) continue;
    const bool ratio = std::string_view(name) == "cv";
    begin_entry(json, family, std::string("_") + name);
    json.member("threads", family.threads);
    json.member("aggregate_name", name);
    json.member("aggregate_unit", ratio ? "percentage" : "time");
    // As Google Benchmark writes it: the unit stands for the family, a ratio is not scaled.
    json.member("iterations", family.repetitions);
    json.number("real_time", ratio ? value : value * 1e9);
    json.number("cpu_time", ratio ? value : value * 1e9);
    json.member("time_unit", "ns");
    if (std::string_view(name) == "mean" || std::string_view(name) == "median")
      write_counters(json, record, arm);
    json.end_object();
  }
}

void write_arm(JsonWriter& json, Family family, const Record& record, const ArmResult& arm) {
  if (speed_of(record, arm) == nullptr) {
    const std::string& what = arm.failure.empty() ? record.verdict.reason : arm.failure;
    return write_error(json, family, "no speed: " + what);
  }
  const std::vector<Stretch> stretches = stretches_of(arm, kRepetitions);
  if (stretches.empty()) return write_error(json, family, "no block of steps was measured");
  family.repetitions = static_cast<int>(stretches.size());
  family.name += fmt::format("/repeats:{}", stretches.size());
  std::vector<double> seconds;
  for (const Stretch& stretch : stretches) {
    begin_entry(json, family, "");
    json.member("repetition_index", static_cast<int64_t>(seconds.size()));
    json.member("threads", family.threads);
    write_times(json, stretch.steps, stretch.step_seconds);
    json.end_object();
    seconds.push_back(stretch.step_seconds);
  }
  write_aggregates(json, family, record, arm, seconds);
}

// Kernels alone, once each, as their own program told them.
void write_kernels(JsonWriter& json, const Record& record, int& index) {
  if (!record.kernels) return;
  for (const KernelTime& kernel : record.kernels->kernels) {
    const Family family{base_name(record, "kernels") + "/kernel:" + kernel.name, index++, 1,
                        record.planned.topology.threads_per_rank};
    begin_entry(json, family, "");
    json.member("repetition_index", 0);
    json.member("threads", family.threads);
    write_times(json, 1, kernel.seconds);
    json.number("bytes_per_second", kernel.bytes_per_second);
    json.number("flops_per_second", kernel.flops_per_second);
    json.number("of_roofline_ratio", kernel.of_roofline_ratio);
    json.end_object();
  }
}

void write_context(JsonWriter& json, const std::vector<Record>& records) {
  const Record* ran = first_that_ran(records);
  const Environment environment = ran == nullptr ? Environment{} : ran->environment;
  json.key("context").begin_object();
  json.member("date", environment.started_at);
  json.member("host_name", environment.host);
  json.member("executable", "dettax");
  json.member("num_cpus", environment.cores);
  json.member("mhz_per_cpu", 0);
  json.member("cpu_scaling_enabled", false);
  json.key("caches").begin_array();
  json.end_array();
  json.key("load_avg").begin_array();
  json.end_array();
  json.member("library_build_type", environment.build_type == "Debug" ? "debug" : "release");
  json.member("json_schema_version", 1);
  json.member("dettax_version", environment.tool_version);
  json.member("dettax_git_commit", environment.git_commit);
  json.member("cpu_model", environment.cpu_model);
  json.member("run_id", ran == nullptr ? "" : ran->run_id);
  json.end_object();
}

}  // namespace

void write_google_benchmark(std::ostream& out, const std::vector<Record>& records,
                            const ExportSettings&) {
  JsonWriter json(out, 2);
  json.begin_object();
  write_context(json, records);
  json.key("benchmarks").begin_array();
  int index = 0;
  for (const Record& record : records) {
    const int threads = record.planned.topology.threads_per_rank;
    for (const ArmResult& arm : record.arms)
      write_arm(json, {base_name(record, arm.arm), index++, 1, threads}, record, arm);
    write_kernels(json, record, index);
    if (record.arms.empty()) {
      write_error(json, {base_name(record, "none"), index++, 1, threads}, record.verdict.reason);
    }
  }
  json.end_array();
  json.end_object();
  out << "\n";
}

}  // namespace dettax
