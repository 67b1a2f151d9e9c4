#include "harness/launch/controls.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "harness/evidence/controls.h"
#include "harness/evidence/knob_places.h"

namespace dettax {
namespace {

// A race that shows in one run of ten is found with 9 chances in 10.
constexpr int kMostRuns = 24;
constexpr int kLeastRuns = 2;

bool left(const KnobControl& row) { return row.status == ControlStatus::not_run; }

}  // namespace

ControlRuns::ControlRuns(ArmSpec spec, ControlSettings settings)
    : spec_(std::move(spec)),
      settings_(std::move(settings)),
      start_(std::chrono::steady_clock::now()) {
  for (const Knob knob : control_knobs(spec_.planned)) {
    KnobControl& row = rows_.emplace_back();
    row.arm = spec_.arm;
    row.knob = knob_name(knob);
    if (const auto reason = why_not_shown(spec_.planned, spec_.mode, knob)) {
      row.status = ControlStatus::not_shown;
      row.reason = *reason;
    }
  }
}

double ControlRuns::elapsed_seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void ControlRuns::explain(const std::string& reason) {
  for (KnobControl& row : rows_) {
    if (left(row)) row.reason = reason;
  }
}

void ControlRuns::run(Launcher& launcher) {
  auto remaining = std::count_if(rows_.begin(), rows_.end(), left);
  if (remaining == 0) return;
  settings_.on_run(fmt::format("controls of {}: starting", spec_.arm));
  start_ = std::chrono::steady_clock::now();
  const auto group = launcher.start(spec_, spec_.arm + ".controls");
  for (KnobControl& row : rows_) {
    if (!left(row)) continue;
    const double share =
        (settings_.cap_seconds - elapsed_seconds()) / static_cast<double>(remaining--);
    run_knob(*group, row, elapsed_seconds() + share);
  }
}

Ledger ControlRuns::make_ledger(ArmGroup& group, const std::string& knob, const std::string& name) {
  const std::filesystem::path path =
      settings_.folder / fmt::format("{}.weak_{}.{}.ledger", spec_.arm, knob, name);
  group.write_ledger(spec_.planned.seed, settings_.steps, path, ++ledgers_);
  std::ifstream in(path, std::ios::binary);
  return read_ledger(in, path.string());
}

// Until a difference is seen, or the runs or the time are spent.
void ControlRuns::run_knob(ArmGroup& group, KnobControl& row, double cap_seconds) {
  const Knob knob = knob_named(row.knob);
  const auto out_of_time = [&] { return elapsed_seconds() >= cap_seconds; };
  if (out_of_time()) {
    row.reason = "the time for controls was spent";
    return;
  }
  settings_.on_run(fmt::format("{} with {} weakened", spec_.arm, row.knob));
  group.weaken(knob);
  const Ledger first = make_ledger(group, row.knob, "first");
  row.runs = 1;
  while (row.runs < kLeastRuns || (row.runs < kMostRuns && !out_of_time())) {
    const LedgerComparison comparison =
        compare_ledgers(first, make_ledger(group, row.knob, "last"));
    ++row.runs;
    if (!comparison.first) continue;
    row.first_op = comparison.first->path;
    const bool here = acts_at(knob, row.first_op, spec_.planned.backend);
    row.status = here ? ControlStatus::caught : ControlStatus::misplaced;
    if (!here) row.reason = fmt::format("first difference at {}", row.first_op);
    return;
  }
  row.status = ControlStatus::not_shown;
  row.reason = fmt::format("equal in {} runs", row.runs);
}

const Mode* control_mode(const Suite& suite) {
  const auto found = std::find_if(suite.modes.begin(), suite.modes.end(),
                                  [](const Mode& mode) { return mode.claims_reproducible; });
  return found == suite.modes.end() ? nullptr : &*found;
}

int control_ledgers(const Case& planned, const Suite& suite) {
  const Mode* mode = control_mode(suite);
  if (mode == nullptr || !suite.evidence.controls) return 0;
  int count = 0;
  for (const Knob knob : control_knobs(planned)) {
    if (!why_not_shown(planned, *mode, knob)) count += kLeastRuns;
  }
  return count;
}

}  // namespace dettax
