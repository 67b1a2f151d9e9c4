#include "harness/launch/run_suite.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "harness/base/format.h"
#include "results/journal.h"
#include "results/reason.h"

namespace dettax {
namespace {

using Clock = std::chrono::steady_clock;

// Of a case's share of the budget, before the first case has shown how long starting and evidence
// take; and the least that is worth measuring.
constexpr double kFirstOverheadShare = 0.4;
constexpr double kLeastMeasuringShare = 0.2;

// Divides the time of a run among its cases.
class Budget {
 public:
  explicit Budget(std::optional<double> seconds) : seconds_(seconds) {}
  bool spent() const { return seconds_ && left() <= 0; }
  double total() const { return seconds_.value_or(0); }

  // Seconds of measuring for the next of `cases` cases.
  double measuring_seconds(double planned, size_t cases) const {
    if (!seconds_) return planned;
    const double share = std::max(0.0, left()) / static_cast<double>(std::max<size_t>(1, cases));
    const double overhead = overhead_known_ ? overhead_seconds_ : kFirstOverheadShare * share;
    return std::max(share - overhead, kLeastMeasuringShare * share);
  }
  void note_overhead(double seconds) {
    overhead_known_ = true;
    overhead_seconds_ = std::max(0.0, seconds);
  }

 private:
  double left() const {
    return seconds_.value_or(0) - std::chrono::duration<double>(Clock::now() - start_).count();
  }
  std::optional<double> seconds_;
  Clock::time_point start_ = Clock::now();
  bool overhead_known_ = false;
  double overhead_seconds_ = 0;
};

Record out_of_budget(const Case& planned, const Suite& suite, const RunFolder& folder,
                     double budget_seconds) {
  Record record;
  record.run_id = folder.run_id();
  record.suite = suite.name;
  record.suite_hash = suite.hash;
  record.case_id = planned.id();
  record.planned = planned;
  record.verdict = make_verdict(
      "incomplete", fmt::format("The budget of {} was spent before it; --resume runs it.",
                                format_seconds(budget_seconds)));
  return record;
}

std::function<void(const CaseProgress&)> tells_progress(const RunSuiteSettings& settings,
                                                        size_t done, size_t total) {
  return [&settings, done, total](const CaseProgress& progress) {
    if (settings.on_progress) settings.on_progress(done, total, progress);
  };
}

std::function<void(const std::string&)> tells_not_saved(const RunSuiteSettings& settings,
                                                        RunFolder& folder,
                                                        const std::string& case_id) {
  return [&settings, &folder, case_id](const std::string& words) {
    folder.journal(kNotSavedEvent, case_id, words);
    if (settings.on_not_saved) settings.on_not_saved(case_id, words);
  };
}

}  // namespace

SuiteRun run_suite(const Suite& suite, RunFolder& folder, Launcher& launcher,
                   const RunSuiteSettings& settings) {
  SuiteRun run;
  Budget budget(settings.budget_seconds);
  const size_t total = suite.cases.size();
  const auto is_interrupted = [&] { return settings.interrupted && settings.interrupted(); };
  for (size_t i = 0; i < total && !run.interrupted; ++i) {
    const Case& planned = suite.cases[i];
    const std::string id = planned.id();
    std::optional<Record> record = folder.record(id);
    if (!record || !finished(*record)) {
      if (budget.spent()) {
        record = out_of_budget(planned, suite, folder, budget.total());
      } else {
        Suite paced = suite;
        paced.measure.budget_seconds =
            budget.measuring_seconds(suite.measure.budget_seconds, total - i);
        const CaseContext context{paced,
                                  launcher,
                                  folder.path(),
                                  folder.run_id(),
                                  tells_progress(settings, i, total),
                                  settings.interrupted,
                                  tells_not_saved(settings, folder, id)};
        folder.journal(kStartedEvent, id);
        try {
          record = run_case(planned, context);
        } catch (const Error&) {
          if (!is_interrupted()) throw;
          folder.journal(kInterruptedEvent, id);
          run.interrupted = true;
          break;
        }
        budget.note_overhead(record->duration_seconds - paced.measure.budget_seconds);
      }
      folder.write_record(*record);
      folder.journal(kFinishedEvent, id, record->verdict.reason_code);
    }
    if (settings.on_record) settings.on_record(i + 1, total, *record);
    run.records.push_back(std::move(*record));
  }
  return run;
}

}  // namespace dettax
