#include "exporters/prometheus/metrics_server.h"

#include <chrono>
#include <exception>
#include <mutex>

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include "exporters/escape.h"
#include "exporters/prometheus/families.h"
#include "exporters/prometheus/run_watch.h"
#include "harness/base/error.h"

namespace dettax {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kBetweenLooks{500};  // however often it is scraped

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

class RunCollectable : public prometheus::Collectable {
 public:
  RunCollectable(const std::filesystem::path& folder, double keep_seconds)
      : watch_(folder, keep_seconds),
        start_seconds_(
            std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
                .count()) {
    look();
  }

  std::vector<prometheus::MetricFamily> Collect() const override {
    const std::scoped_lock lock(mutex_);
    if (Clock::now() - looked_ >= kBetweenLooks) look();
    std::vector<prometheus::MetricFamily> families = families_;
    add_live(families, watch_, start_seconds_);
    return families;
  }

 private:
  void look() const {
    if (watch_.look()) families_ = families_of(watch_.metrics());
    looked_ = Clock::now();
  }

  // Collecting is const to its caller, and looks for what is new.
  mutable std::mutex mutex_;
  mutable RunWatch watch_;
  mutable std::vector<prometheus::MetricFamily> families_;
  mutable Clock::time_point looked_;
  double start_seconds_;
};

bool same(const std::string& a, const std::string& b) {
  // In a time that does not tell where they differ.
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size() && !b.empty(); ++i)
    difference |= static_cast<unsigned>(a[i] ^ b[i % b.size()]);
  return difference == 0;
}

}  // namespace

struct MetricsServer::State {
  std::shared_ptr<RunCollectable> collectable;  // as prometheus-cpp wants it
  std::unique_ptr<prometheus::Exposer> exposer;
};

MetricsServer::MetricsServer(const ServerSettings& settings) : state_(std::make_unique<State>()) {
  state_->collectable =
      std::make_shared<RunCollectable>(settings.runs_folder, settings.keep_seconds);
  try {
    state_->exposer = std::make_unique<prometheus::Exposer>(settings.address);
  } catch (const std::exception&) {
    throw Error(ErrorKind::infrastructure,
                settings.address +
                    ": cannot be listened on: is the port taken, or the address "
                    "not one of this host?");
  }
  if (!settings.user.empty()) {
    state_->exposer->RegisterAuth(
        [user = settings.user, password = settings.password](const std::string& given,
                                                             const std::string& secret) {
          return same(given, user) && same(secret, password);
        },
        "dettax");
  }
  state_->exposer->RegisterCollectable(state_->collectable);
}

MetricsServer::~MetricsServer() = default;

int MetricsServer::port() const { return state_->exposer->GetListeningPorts().at(0); }

}  // namespace dettax
