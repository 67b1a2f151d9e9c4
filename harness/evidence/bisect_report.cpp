#include "harness/evidence/bisect_report.h"

#include <charconv>
#include <ostream>
#include <string_view>

#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/train/observer.h"

namespace dettax {
namespace {

std::string replay_words(const BisectReport& report) {
  const int64_t last = report.first_step + report.steps - 1;
  const std::string steps = report.steps == 1
                                ? fmt::format("step {}", last)
                                : fmt::format("steps {} to {}", report.first_step, last);
  return fmt::format("{} op by op from {}", steps,
                     report.checkpoint.empty() ? "the reset" : report.checkpoint);
}

// What is to be known of the replay before what came of it.
void write_notes(std::ostream& out, const BisectReport& report) {
  if (!report.other_build.empty())
    out << "replayed by another build or machine than recorded: " << report.other_build << '\n';
  for (const std::string& why : report.passed_over) out << "passed over: " << why << '\n';
  if (report.not_moved)
    out << "this machine puts ranks and threads that lay elsewhere into the same places as "
           "before: that they lay elsewhere is not replayed\n";
  if (!report.not_repeated.empty())
    out << "the replay is not the run that was recorded, in steps that were equal: "
        << report.not_repeated << '\n';
}

}  // namespace

std::optional<int64_t> micro_batch_of(std::string_view path) {
  constexpr std::string_view kPrefix = "micro";
  if (!path.starts_with(kPrefix) || without_micro_batch(path) == path) return std::nullopt;
  int64_t number = 0;
  std::from_chars(path.data() + kPrefix.size(), path.data() + path.size(), number);
  return number;
}

void write_bisect(std::ostream& out, const BisectReport& report) {
  const LedgerDiff& recorded = report.recorded;
  out << fmt::format("A  {}\nB  {}\n", recorded.a.name, recorded.b.name);
  if (!recorded.forced_past.empty()) out << "forced past: " << recorded.forced_past << '\n';
  if (!recorded.comparison.comparable) {
    out << "not compared: " << recorded.comparison.incomparable_reason << '\n';
    return;
  }
  if (recorded.comparison.equal) {
    out << fmt::format("equal: {} fingerprints; nothing to look for\n",
                       recorded.comparison.compared);
    return;
  }
  out << fmt::format("recorded at depth {}: {}\n", to_string(recorded.comparison.depth),
                     recorded.comparison.description);
  write_notes(out, report);
  if (!report.why_not_replayed.empty()) {
    out << "no replay: " << report.why_not_replayed << '\n';
  } else if (report.replayed) {
    out << fmt::format("replayed {}: runs differ again, found in {}\n", replay_words(report),
                       format_things(report.runs, "run"));
    out << "origin: " << report.replayed->comparison.description << '\n';
  } else {
    out << fmt::format(
        "replayed {}: {} were equal, so the difference was not shown again; it comes by luck (a "
        "race, memory that was not written, the hardware) or from what a replay does not repeat "
        "(build, machine). Give --tries more, or record with --depth op\n",
        replay_words(report), format_things(report.runs, "run"));
  }
  const Cause& cause = report.deepest().cause;
  if (!cause.name.empty() && (report.replayed || !report.why_not_replayed.empty()))
    out << "class: " << cause.name << "\nwhat to do: " << cause.advice << '\n';
}

}  // namespace dettax
