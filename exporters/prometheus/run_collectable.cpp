#include "exporters/prometheus/run_collectable.h"

#include <string>
#include <utility>

#include "exporters/escape.h"
#include "exporters/prometheus/families.h"

namespace dettax {
namespace {

using Clock = std::chrono::steady_clock;

class LiveFamily {
 public:
  LiveFamily(const char* name, const char* help, prometheus::MetricType type) {
    family_.name = name;
    family_.help = help;
    family_.type = type;
  }
  void add(const std::string& suite, double value) {
    prometheus::ClientMetric metric;
    if (!suite.empty()) metric.label = {{"suite", label_value(suite)}};
    if (family_.type == prometheus::MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
    family_.metric.push_back(std::move(metric));
  }
  prometheus::MetricFamily take() { return std::move(family_); }

 private:
  prometheus::MetricFamily family_;
};

// What changes with the time, told of the newest run of each suite.
void add_live(std::vector<prometheus::MetricFamily>& families, const RunWatch& watch,
              double start_seconds) {
  using Type = prometheus::MetricType;
  LiveFamily up("dettax_run_up", "1 if a run of the suite is going on.", Type::Gauge);
  LiveFamily age("dettax_run_age_seconds", "Time since the suite's newest run last told of itself.",
                 Type::Gauge);
  LiveFamily planned("dettax_run_cases_planned", "Cases of the suite's newest run.", Type::Gauge);
  LiveFamily done("dettax_run_cases_done", "Of these, cases that have a record.", Type::Gauge);
  LiveFamily total("dettax_cases_finished_total",
                   "Cases of the suite seen to finish since this server began.", Type::Counter);
  for (const SuiteState& state : watch.suites()) {
    up.add(state.suite, state.up ? 1 : 0);
    age.add(state.suite, state.age_seconds);
    planned.add(state.suite, static_cast<double>(state.planned));
    done.add(state.suite, static_cast<double>(state.done));
    total.add(state.suite, static_cast<double>(state.finished_total));
  }
  LiveFamily unreadable("dettax_unreadable_runs", "Run folders that cannot be read.", Type::Gauge);
  unreadable.add("", static_cast<double>(watch.unreadable_runs()));
  LiveFamily start("dettax_server_start_time_seconds",
                   "When this server began; its counters began at 0 then.", Type::Gauge);
  start.add("", start_seconds);
  for (LiveFamily* family : {&up, &age, &planned, &done, &total, &unreadable, &start}) {
    prometheus::MetricFamily whole = family->take();
    if (!whole.metric.empty()) families.push_back(std::move(whole));
  }
}

}  // namespace

RunCollectable::RunCollectable(const std::filesystem::path& folder, double keep_seconds,
                               std::chrono::milliseconds between_looks)
    : watch_(folder, keep_seconds),
      between_looks_(between_looks),
      start_seconds_(
          std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
              .count()) {
  look();
}

std::vector<prometheus::MetricFamily> RunCollectable::Collect() const {
  const std::scoped_lock lock(mutex_);
  if (Clock::now() - looked_ >= between_looks_) look();
  std::vector<prometheus::MetricFamily> families = families_;
  add_live(families, watch_, start_seconds_);
  return families;
}

void RunCollectable::look() const {
  if (watch_.look()) families_ = families_of(watch_.metrics());
  looked_ = Clock::now();
}

}  // namespace dettax
