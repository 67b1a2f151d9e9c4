#include "harness/launch/replay.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/evidence/ledger_source.h"
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
    const std::filesystem::path path = settings_.folder / fmt::format("replay_{}.ledger", count_);
    // A first run of timed processes had no delays put in, all others had.
    const bool calm = of_timed_group(what.place) && fresh;
    group_->write_ledger(what.spec.planned.seed, static_cast<int>(settings_.steps), path,
                         calm ? 0 : static_cast<uint64_t>(count_), LedgerDepth::op);
    return path;
  }
  int count() const { return count_; }

 private:
  const ReplaySettings& settings_;
  const bool in_one_group_;
  std::unique_ptr<ArmGroup> group_;
  int count_ = 0;
};

}  // namespace

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

// Runs have no checkpoints yet.
ReplayStart nearest_start(const std::filesystem::path&, const LedgerPlace&, int64_t) { return {}; }

void replay(const Replayed& a, const Replayed& b, const ReplaySettings& settings,
            BisectReport& report) {
  CompareOptions options;
  options.force = settings.force;
  Runs runs(settings, of_one_group(a, b));
  const std::filesystem::path first = runs.run(a);
  report.other_build =
      join(environment_differences(report.recorded.a.head, open_ledger(first)->head()).bits, "; ");
  for (int attempt = 0; attempt < settings.tries && !report.replayed; ++attempt) {
    const std::filesystem::path other = runs.run(b);
    LedgerDiff diff = diff_ledgers(*open_ledger(first), first.string(), *open_ledger(other),
                                   other.string(), options);
    if (!diff.comparison.comparable)
      throw Error(ErrorKind::config,
                  "the replays cannot be compared: " + diff.comparison.incomparable_reason);
    if (!diff.comparison.equal) report.replayed = std::move(diff);
  }
  report.runs = runs.count();
}

}  // namespace dettax
