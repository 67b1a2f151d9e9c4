#include "exporters/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "exporters/escape.h"
#include "exporters/step_times.h"
#include "exporters/tax_state.h"
#include "exporters/utc.h"
#include "harness/base/text.h"
#include "harness/plan/knobs.h"

namespace dettax {
namespace {

enum Family : size_t {
  kStepTime,
  kOverhead,
  kOverheadLow,
  kOverheadHigh,
  kMinDetectable,
  kOverheadPresent,
  kAttributed,
  kResidual,
  kMechanism,
  kBitexact,
  kVerdict,
  kNonfinite,
  kTokens,
  kMemory,
  kLastSuccess,
  kRunInfo,
};

constexpr std::array kScopes{"same_process",   "relaunch",      "other_allocation",
                             "restart_replay", "other_threads", "other_ranks"};
constexpr std::array<std::string_view, 7> kMechanismFamilies{
    "compute", "memory_fill", "exposed_comm", "copy", "idle", "profiler", "unmapped"};
constexpr std::array kStatuses{Status::pass, Status::fail, Status::inconclusive, Status::skipped,
                               Status::error};

// A case as one of its arms is judged in it.
struct Config {
  std::string id;
  const Record* record = nullptr;
  const ArmResult* arm = nullptr;  // null if it never started
  const Tax* tax = nullptr;        // null if there is none
  double end_seconds = 0;          // since 1970; 0 if unknown
  bool complete = false;
};

bool complete(const Record& record) {
  const Verdict& verdict = record.verdict;
  return verdict.status == Status::pass || verdict.status == Status::inconclusive ||
         verdict.reason_code == "over_limit";
}

// The arms a suite judges: those that claim to reproduce their bits, or all but fast if none does. A case that never started has the
// arms of its run.
class RunArms {
 public:
  explicit RunArms(const std::vector<Record>& records) {
    for (const Record& record : records) {
      for (const ArmResult& arm : record.arms) {
        if (arm.arm == "fast" || arm.arm == "control") continue;
        add(arm.claims_reproducible ? claiming_[record.run_id] : others_[record.run_id], arm.arm);
      }
    }
  }
  std::vector<std::string> of(const Record& record) const {
    for (const auto* arms : {&claiming_, &others_}) {
      const auto found = arms->find(record.run_id);
      if (found != arms->end()) return found->second;
    }
    return {""};
  }

 private:
  static void add(std::vector<std::string>& all, const std::string& arm) {
    if (std::find(all.begin(), all.end(), arm) == all.end()) all.push_back(arm);
  }
  std::map<std::string, std::vector<std::string>> claiming_, others_;
};

// A run's name begins with the time of its start: 20260301T120000Z-quick.
double run_start_seconds(const std::string& run_id) {
  constexpr size_t kLength = 16;
  if (run_id.size() < kLength) return 0;
  const std::string& id = run_id;
  return seconds_of_utc(id.substr(0, 4) + "-" + id.substr(4, 2) + "-" + id.substr(6, 5) + ":" +
                        id.substr(11, 2) + ":" + id.substr(13, 3))
      .value_or(0);
}

Config config_of(const Record& record, const std::string& arm) {
  Config config;
  config.id = record.case_id + (arm.empty() ? "" : "/" + arm);
  config.record = &record;
  config.arm = find_arm(record, arm);
  for (const Tax& tax : record.taxes) {
    if (tax.arm == arm) config.tax = &tax;
  }
  const double duration = std::isfinite(record.duration_seconds) ? record.duration_seconds : 0;
  if (const auto start = seconds_of_utc(record.environment.started_at))
    config.end_seconds = *start + duration;
  config.complete = complete(record) && config.end_seconds > 0;
  // A case that never started is as new as its run: what was before must not look alive.
  if (config.end_seconds == 0) config.end_seconds = run_start_seconds(record.run_id);
  return config;
}

class Collector {
 public:
  Collector() { metrics_.samples.resize(metric_families().size()); }

  void add(const Config& config, double last_success) {
    config_ = &config;
    const Record& record = *config.record;
    base_ = {{"config_id", config.id},
             {"precision", precision(record)},
             {"gpu_model", "none"}};  // no backend of this build has one
    verdict(record);
    speeds(record);
    tax(record);
    bits(record);
    if (last_success > 0) put(kLastSuccess, {}, last_success);
    run_info(record);
  }

  Metrics take(std::vector<std::string> warnings) {
    metrics_.warnings = std::move(warnings);
    for (const std::string& cause : merged_causes_)
      metrics_.warnings.push_back(
          fmt::format("cause \"{}\" is not on the list of causes; it counts as \"other\"",
                      first_line(cause, 80)));
    for (const std::string& scope : left_out_scopes_)
      metrics_.warnings.push_back(fmt::format(
          "scope \"{}\" is not on the list of scopes; it is left out", first_line(scope, 80)));
    return std::move(metrics_);
  }

 private:
  static std::string precision(const Record& record) {
    return record.planned.model.name.empty() ? "unknown" : to_string(record.planned.precision);
  }

  void put(Family family, const Labels& more, double value) {
    Labels labels = base_;
    labels.insert(labels.end(), more.begin(), more.end());
    metrics_.samples[family].push_back({std::move(labels), value});
  }
  // A value that is none has no sample; dettax_nonfinite says so.
  void put_finite(Family family, const Labels& more, double value) {
    if (std::isfinite(value)) {
      put(family, more, value);
    } else {
      nonfinite_ = true;
    }
  }

  void verdict(const Record& record) {
    nonfinite_ = record.verdict.reason_code == "non_finite";
    for (const Status status : kStatuses)
      put(kVerdict, {{"result", to_string(status)}}, record.verdict.status == status ? 1 : 0);
  }

  // Mode is one of three, whatever the arm's name: fast, control, det.
  void speeds(const Record& record) {
    const std::array<std::pair<const char*, const ArmResult*>, 3> arms{
        {{"fast", find_arm(record, "fast")},
         {"control", find_arm(record, "control")},
         {"det", config_->arm}}};
    for (const auto& [mode, arm] : arms) {
      if (arm == nullptr) continue;
      nonfinite_ = nonfinite_ || arm->failure_code == "non_finite";
      if (arm->memory_peak_bytes > 0)
        put(kMemory, {{"mode", mode}}, static_cast<double>(arm->memory_peak_bytes));
      const Estimate* time = speed_of(record, *arm);
      if (time == nullptr) continue;
      put_finite(kTokens, {{"mode", mode}}, arm->tokens_per_second);
      step_times_of(mode, *arm, time->value);
    }
  }

  void step_times_of(const char* mode, const ArmResult& arm, double median) {
    std::vector<double> steps = step_times(arm);
    if (steps.empty()) return;
    std::sort(steps.begin(), steps.end());
    const auto one = [&](const char* stat, double seconds) {
      put_finite(kStepTime, {{"mode", mode}, {"stat", stat}}, seconds);
    };
    one("mean", moments_of(steps).mean);
    one("median", median);  // over blocks, as everywhere
    one("p95", quantile_of_sorted(steps, 0.95));
  }

  void tax(const Record& record) {
    const Tax* tax = config_->tax;
    const TaxState state = tax == nullptr ? TaxState::unfinished : tax_state(record, *tax);
    put(kOverheadPresent, {}, has_value(state) ? 1 : 0);
    if (tax != nullptr) {
      const Estimate& ratio = tax->overhead_ratio;
      nonfinite_ = nonfinite_ || !std::isfinite(ratio.value);
      if (has_value(state)) put(kOverhead, {}, ratio.value);
      if (has_interval(state)) {
        put(kOverheadLow, {}, ratio.low);
        put(kOverheadHigh, {}, ratio.high);
      }
      if (state != TaxState::emulated && state != TaxState::unfinished &&
          !std::isnan(tax->min_detectable_overhead_ratio))
        put(kMinDetectable, {}, tax->min_detectable_overhead_ratio);  // +Inf: none is
      if (has_value(state)) {
        causes(record);
        mechanisms(record);
      }
    }
    put(kNonfinite, {}, nonfinite_ ? 1 : 0);
  }

  // What one knob costs: where its knobs were turned, the mean of into fast and out of the mode; else where a contrast of this arm says
  // so. Parts and residual make the whole, so that the residual holds what knobs do together.
  void causes(const Record& record) {
    const ArmResult* fast = find_arm(record, "fast");
    if (fast == nullptr || !fast->step_time_seconds || config_->arm == nullptr ||
        !config_->arm->step_time_seconds)
      return;
    const std::map<std::string, double> parts = parts_of(record);
    if (parts.empty()) return;
    double rest = config_->arm->step_time_seconds->value - fast->step_time_seconds->value;
    for (const auto& [cause, seconds] : parts) {
      put(kAttributed, {{"cause", cause}}, seconds);
      rest -= seconds;
    }
    put_finite(kResidual, {}, rest);
  }

  std::map<std::string, double> parts_of(const Record& record) {
    std::map<std::string, double> parts;
    const auto add = [&](const std::string& knob, double seconds) {
      if (std::isfinite(seconds)) parts[cause_of(knob)] += seconds;
    };
    const std::optional<Ablation>& ablation = record.ablation;
    if (ablation && ablation->refusal.empty() && ablation->arm == config_->arm->arm) {
      for (const KnobCost& cost : ablation->knobs) add(cost.knob, total_seconds(cost));
      return parts;
    }
    for (const Contrast& contrast : record.contrasts) {
      if (contrast.arm == config_->arm->arm) add(contrast.knob, contrast.seconds_per_step.value);
    }
    return parts;
  }

  // Of recorded steps. A closed list: mechanisms of one family ("idle.host", "idle.alloc") count together.
  void mechanisms(const Record& record) {
    for (const ArmProfile& profile : record.profiles) {
      if (config_->arm == nullptr || profile.arm != config_->arm->arm || !profile.refusal.empty())
        continue;
      std::map<std::string, double> parts;
      for (const MechanismTime& time : profile.mechanisms)
        parts[family_of(time.mechanism)] += time.delta_seconds;
      for (const auto& [mechanism, seconds] : parts)
        put_finite(kMechanism, {{"mechanism", mechanism}}, seconds);
      return;
    }
  }

  static std::string family_of(const std::string& mechanism) {
    const std::string family = mechanism.substr(0, mechanism.find('.'));
    const bool known = std::find(kMechanismFamilies.begin(), kMechanismFamilies.end(), family) !=
                       kMechanismFamilies.end();
    return known ? family : "other";
  }

  std::string cause_of(const std::string& knob) {
    const auto& table = knob_table();
    const bool known = std::any_of(table.begin(), table.end(),
                                   [&](const KnobInfo& info) { return info.name == knob; });
    if (!known) merged_causes_.insert(knob);
    return known ? knob : "other";
  }

  void bits(const Record& record) {
    if (config_->arm == nullptr) return;
    const ArmEvidence* evidence = find_evidence(record, config_->arm->arm);
    if (evidence == nullptr) return;
    std::map<std::string, bool> equal;  // of several entries of one scope, one that differs counts
    for (const ScopeEvidence& scope : evidence->scopes) {
      if (!scope.tested) continue;
      if (std::find(kScopes.begin(), kScopes.end(), scope.scope) == kScopes.end()) {
        left_out_scopes_.insert(scope.scope);
        continue;
      }
      const auto [entry, fresh] = equal.emplace(scope.scope, scope.equal);
      entry->second = entry->second && scope.equal;
    }
    for (const auto& [scope, same] : equal) put(kBitexact, {{"scope", scope}}, same ? 1 : 0);
  }

  void run_info(const Record& record) {
    const Environment& environment = record.environment;
    Labels labels{{"config_id", config_->id},
                  {"run_id", record.run_id},
                  {"config_hash", record.suite_hash},
                  {"mode_profile", config_->arm == nullptr ? "" : config_->arm->mode},
                  {"gpu_model", "none"},
                  {"cpu_model", environment.cpu_model},
                  {"host", environment.host},
                  {"commit", environment.git_commit},
                  {"injected", injections(record)}};
    for (const char* name : {"SLURM_JOB_ID", "NEMO_RUN_ID"}) {
      const auto found = environment.variables.find(name);
      if (found == environment.variables.end()) continue;
      labels.emplace_back(name == std::string_view("SLURM_JOB_ID") ? "slurm_job_id" : "nemo_run_id",
                          found->second);
    }
    std::erase_if(labels, [](const auto& label) { return label.second.empty(); });
    metrics_.samples[kRunInfo].push_back({std::move(labels), 1});
  }

  static std::string injections(const Record& record) {
    std::vector<std::string> kinds;
    for (const Injection& fault : record.planned.injections) kinds.push_back(fault.kind);
    return join(kinds, " ");
  }

  Metrics metrics_;
  const Config* config_ = nullptr;
  Labels base_;
  bool nonfinite_ = false;
  std::set<std::string> merged_causes_, left_out_scopes_;
};

}  // namespace

const std::vector<MetricFamily>& metric_families() {
  static const std::vector<MetricFamily> kFamilies = {
      {"dettax_step_time_seconds", "seconds", "Step time, that of the slowest rank."},
      {"dettax_overhead_ratio", "ratio",
       "Deterministic step time over fast step time, paired; 1 is no cost. Absent where it is not "
       "a tax."},
      {"dettax_overhead_ci_low_ratio", "ratio", "Lower end of the interval of the overhead."},
      {"dettax_overhead_ci_high_ratio", "ratio", "Upper end of the interval of the overhead."},
      {"dettax_min_detectable_overhead_ratio", "ratio",
       "Smallest ratio that the A/A runs allow to tell from 1; +Inf if none."},
      {"dettax_overhead_present", "",
       "1 if dettax_overhead_ratio has a value; 0 if it is void, undecided, emulated or "
       "unfinished."},
      {"dettax_overhead_attributed_seconds", "seconds",
       "Part of the extra time per step put down to this cause."},
      {"dettax_attribution_residual_seconds", "seconds",
       "Extra time per step without a cause; parts and residual make the whole."},
      {"dettax_overhead_mechanism_seconds", "seconds",
       "Part of the extra time per recorded step that this mechanism took; they add up to it."},
      {"dettax_bitexact", "", "1 if the bits agreed over this scope; absent if not tested."},
      {"dettax_verdict", "", "1 for the verdict of the case, 0 for the other four."},
      {"dettax_nonfinite", "", "1 if a value of the case was no finite number."},
      {"dettax_tokens_per_second", "", "Global throughput in tokens per second."},
      {"dettax_memory_peak_bytes", "bytes", "Peak memory of a process, the largest over ranks."},
      {"dettax_last_success_timestamp_seconds", "seconds",
       "End of the last complete run, whatever its verdict on overhead."},
      {"dettax_run_info", "", "Which run the other metrics are from; always 1."},
  };
  return kFamilies;
}

std::map<std::string, double> last_successes(const std::string& text) {
  constexpr std::string_view kStart = "dettax_last_success_timestamp_seconds{config_id=\"";
  std::map<std::string, double> found;
  for (const std::string& line : split(text, '\n')) {
    if (!line.starts_with(kStart)) continue;
    const size_t end = line.find('"', kStart.size());
    const size_t space = line.rfind(' ');
    // A config whose name needs escapes is not one of ours.
    if (end == std::string::npos || space < end || line[end - 1] == '\\') continue;
    const double seconds = std::strtod(line.c_str() + space, nullptr);
    if (seconds > 0) found[line.substr(kStart.size(), end - kStart.size())] = seconds;
  }
  return found;
}

Metrics metrics_of(const std::vector<Record>& records,
                   const std::map<std::string, double>& last_successes) {
  const RunArms arms(records);
  std::vector<Config> configs;
  std::map<std::string, size_t> place;
  std::map<std::string, double> success = last_successes;
  size_t older = 0;
  for (const Record& record : records) {
    for (const std::string& arm : arms.of(record)) {
      const Config config = config_of(record, arm);
      if (config.complete) success[config.id] = std::max(success[config.id], config.end_seconds);
      const auto [at, fresh] = place.emplace(config.id, configs.size());
      if (fresh) {
        configs.push_back(config);
        continue;
      }
      ++older;
      Config& kept = configs[at->second];
      if (config.end_seconds >= kept.end_seconds) kept = config;
    }
  }
  Collector collector;
  for (const Config& config : configs) collector.add(config, success[config.id]);
  std::vector<std::string> warnings;
  if (older > 0)
    warnings.push_back(fmt::format("{} older results of the same configs are left out", older));
  return collector.take(std::move(warnings));
}

}  // namespace dettax
