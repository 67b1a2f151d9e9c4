#include "harness/launch/replay.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/evidence/ledger_source.h"
#include "harness/evidence/repetition.h"
#include "harness/launch/ledgers.h"
#include "harness/launch/run_case.h"

namespace dettax {
namespace {

bool of_timed_group(const LedgerPlace& place) { return place.run.starts_with("run_"); }

bool of_one_group(const Replayed& a, const Replayed& b) {
  return of_timed_group(a.place) && of_timed_group(b.place) && a.place.arm == b.place.arm &&
         a.place.case_id == b.place.case_id;
}

// One run after the other, in a group that goes on or in fresh ones.
class Runs {
 public:
  Runs(const ReplaySettings& settings, bool in_one_group)
      : settings_(settings), in_one_group_(in_one_group) {}

  std::filesystem::path run(const Replayed& what) {
    ++count_;
    settings_.on_run(fmt::format("run {}: {} {}", count_, what.place.arm, what.place.run));
    const bool fresh = !group_ || !in_one_group_;
    if (fresh) {
      group_.reset();
      group_ = what.launcher->start(what.spec, fmt::format("replay_{}", count_));
    }
    const std::filesystem::path path = replay_file(settings_.folder, count_);
    // A first run of timed processes had no delays put in, all others had.
    const bool calm = of_timed_group(what.place) && fresh;
    request::WriteLedger run{what.spec.planned.seed, static_cast<int>(end_step()), path.string(),
                             calm ? 0 : static_cast<uint64_t>(count_), LedgerDepth::op};
    if (!settings_.start.checkpoint.empty()) {
      run.checkpoints.load = std::filesystem::absolute(settings_.start.checkpoint).string();
      run.checkpoints.from = static_cast<int>(settings_.start.step);
    }
    group_->write_ledger_with(run);
    return path;
  }
  // Of the run that was made last.
  std::string seats() const { return group_->seats(); }
  int64_t end_step() const { return settings_.start.step + settings_.steps; }
  int count() const { return count_; }

 private:
  const ReplaySettings& settings_;
  const bool in_one_group_;
  std::unique_ptr<ArmGroup> group_;
  int count_ = 0;
};

}  // namespace

std::filesystem::path replay_file(const std::filesystem::path& folder, int number) {
  return folder / fmt::format("replay_{}.ledger", number);
}

ArmSpec replay_spec(const Suite& suite, const LedgerPlace& place) {
  const auto planned =
      std::ranges::find_if(suite.cases, [&](const Case& one) { return one.id() == place.case_id; });
  if (planned == suite.cases.end())
    throw Error(ErrorKind::config,
                fmt::format("the run's suite.yaml has no case {}", place.case_id));
  std::vector<ArmSpec> specs = arm_specs(*planned, suite);
  const auto spec =
      std::ranges::find_if(specs, [&](const ArmSpec& one) { return one.arm == place.arm; });
  if (spec == specs.end())
    throw Error(ErrorKind::config, fmt::format("the run's suite.yaml has no arm {}", place.arm));
  if (of_timed_group(place) || place.run == "relaunch") return std::move(*spec);
  if (place.run == kOtherAllocation) {
    spec->placement = RankPlacement::swapped;
    return std::move(*spec);
  }
  std::vector<Variant> variants = thread_variants(*planned);
  for (Variant& variant : rank_variants(*planned)) variants.push_back(std::move(variant));
  for (Variant& variant : variants) {
    if (ledger_run_name(variant.label) != place.run) continue;
    spec->planned = std::move(variant.planned);
    return std::move(*spec);
  }
  throw Error(ErrorKind::config,
              fmt::format("{}.{}.ledger: nothing says how a run named {} is repeated", place.arm,
                          place.run, place.run));
}

namespace {

// Steps before the last are those in which the recorded runs were equal: a replay that is none of them is not what was recorded.
void check_repetition(const LedgerDiff::Side& recorded, const std::filesystem::path& again,
                      const ReplaySettings& settings, BisectReport& report) {
  const auto then = open_ledger(recorded.name), now = open_ledger(again);
  const int64_t from = settings.start.step, last = from + settings.steps - 1;
  const Repetition found = compare_repetition(*then, *now, from, last);
  report.repeated += found.compared;
  if (report.not_repeated.empty() && !found.first_difference.empty())
    report.not_repeated = fmt::format("{}: {}", recorded.name, found.first_difference);
}

}  // namespace

void replay(const Replayed& a, const Replayed& b, const ReplaySettings& settings,
            BisectReport& report) {
  Runs runs(settings, of_one_group(a, b));
  const std::filesystem::path first = runs.run(a);
  const std::string seats_of_a = runs.seats();
  report.other_build =
      join(environment_differences(report.recorded.a.head, open_ledger(first)->head()).bits, "; ");
  check_repetition(report.recorded.a, first, settings, report);
  for (int attempt = 0; attempt < settings.tries && !report.replayed; ++attempt) {
    const std::filesystem::path other = runs.run(b);
    report.not_moved = a.spec.placement != b.spec.placement && runs.seats() == seats_of_a;
    check_repetition(report.recorded.b, other, settings, report);
    LedgerDiff diff = diff_ledgers(*open_ledger(first), first.string(), *open_ledger(other),
                                   other.string(), settings.compare, settings.scope);
    if (!diff.comparison.comparable)
      throw Error(ErrorKind::config,
                  "the replays cannot be compared: " + diff.comparison.incomparable_reason);
    if (!diff.comparison.equal) report.replayed = std::move(diff);
  }
  report.runs = runs.count();
}

}  // namespace dettax
