#include "harness/launch/run_case.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/device/cpu/gemm.h"
#include "harness/evidence/assemble.h"
#include "harness/launch/arm_comparison.h"
#include "harness/launch/case_profile.h"
#include "harness/launch/controls.h"
#include "harness/launch/environment_audit.h"
#include "harness/launch/ledgers.h"
#include "harness/launch/memory.h"
#include "harness/launch/timed_group.h"
#include "harness/measure/measure.h"
#include "harness/measure/verdict.h"
#include "results/environment.h"
#include "results/reason.h"

namespace dettax {
namespace {

using Clock = std::chrono::steady_clock;

// Share of a case's progress bar at which each phase begins.
constexpr double kMeasureFrom = 0.05;
constexpr double kProfileFrom = 0.7;
constexpr double kProveFrom = 0.75;
constexpr double kControlFrom = 0.9;
constexpr double kAblateFrom = 0.95;

// Controls may take as long as the evidence itself, and this long in any case.
constexpr double kLeastControlSeconds = 10;

// Places of the two arms that every case has.
constexpr size_t kFast = 0;
constexpr size_t kControl = 1;

struct Arm {
  ArmSpec spec;
  ArmResult result;
  std::unique_ptr<ArmGroup> group;
  bool broken() const { return !result.failure_code.empty(); }
};

ArmResult planned_result(const ArmSpec& spec, const Suite& suite) {
  ArmResult result;
  result.arm = spec.arm;
  result.mode = spec.mode.name;
  result.mode_hash = spec.mode.hash;
  result.claims_reproducible = spec.mode.claims_reproducible;
  result.environment = spec.mode.environment;
  result.environment_before = standing_values(spec.mode.environment);
  result.memory_estimate_bytes =
      estimate_memory(on_its_node(spec.planned, suite), spec.mode).total();
  for (const KnobInfo& info : knob_table()) {
    result.knobs[std::string(info.name)] = knob_value(spec.mode.knobs, info.knob);
  }
  return result;
}

// A process that dies while it trains is a crash; what goes wrong before that keeps its kind.
std::string failure_code(const Error& error, bool started) {
  if (started && error.kind() == ErrorKind::infrastructure) return "rank_crashed";
  if (error.kind() == ErrorKind::timeout) return "hang";
  return std::string(reason_code_of(error.kind()));
}

class CaseRunner {
 public:
  CaseRunner(const Case& planned, const CaseContext& context)
      : planned_(planned), context_(context), suite_(context.suite) {}
  Record run();

 private:
  void go_through();
  void start_arms();
  void measure_arms();
  void take(const Measurement& measurement, const std::vector<Arm*>& arms);
  void profile();
  void prove();
  void ablate();
  ProfileContext profile_context(const std::string& folder);
  void control(const std::filesystem::path& folder, double cap_seconds);
  void fill_taxes();
  void note_failure(Arm& arm, const Error& error, bool started);
  void throw_if_interrupted() const;
  void report(const std::string& words, double fraction);
  double elapsed_seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

  const Case& planned_;
  const CaseContext& context_;
  const Suite& suite_;
  Clock::time_point start_ = Clock::now();
  std::vector<Arm> arms_;
  Record record_;
};

Record CaseRunner::run() {
  record_.run_id = context_.run_id;
  record_.suite = suite_.name;
  record_.suite_hash = suite_.hash;
  record_.case_id = planned_.id();
  record_.planned = planned_;
  record_.environment = collect_environment(gemm_target_name());
  if (const auto reason = case_refusal(planned_, suite_, available_memory_bytes())) {
    record_.verdict = make_verdict("refused", *reason);
    return std::move(record_);
  }
  for (ArmSpec& spec : arm_specs(planned_, suite_)) {
    ArmResult result = planned_result(spec, suite_);
    arms_.push_back({std::move(spec), std::move(result), nullptr});
  }
  try {
    go_through();
  } catch (const Error& error) {
    throw_if_interrupted();
    record_.verdict = make_verdict(reason_code_of(error.kind()), error.what());
  }
  for (Arm& arm : arms_) {
    arm.group.reset();
    record_.arms.push_back(std::move(arm.result));
  }
  record_.precision_note = emulation_note(planned_);
  compare_arms(record_, context_.folder, suite_.measure.confidence);
  record_.duration_seconds = elapsed_seconds();
  judge(record_, suite_);
  return std::move(record_);
}

void CaseRunner::go_through() {
  start_arms();
  measure_arms();
  profile();
  prove();
  fill_taxes();
  ablate();
}

void CaseRunner::throw_if_interrupted() const {
  if (context_.interrupted && context_.interrupted()) {
    throw Error(ErrorKind::infrastructure, "interrupted");
  }
}

void CaseRunner::report(const std::string& words, double fraction) {
  if (elapsed_seconds() > suite_.measure.case_timeout_seconds) {
    throw Error(ErrorKind::timeout,
                fmt::format("the case took longer than measure.case_timeout_seconds = {} ({})",
                            format_number(suite_.measure.case_timeout_seconds), words));
  }
  throw_if_interrupted();
  if (context_.on_progress) context_.on_progress({record_.case_id, words, fraction});
}

void CaseRunner::note_failure(Arm& arm, const Error& error, bool started) {
  throw_if_interrupted();
  arm.result.failure_code = failure_code(error, started);
  arm.result.failure = error.what();
  if (arm.group) arm.result.memory_peak_bytes = arm.group->memory_peak_bytes();
  arm.group.reset();
}

void CaseRunner::start_arms() {
  for (size_t i = 0; i < arms_.size(); ++i) {
    Arm& arm = arms_[i];
    report("starting " + arm.spec.arm,
           kMeasureFrom * static_cast<double>(i) / static_cast<double>(arms_.size()));
    try {
      arm.group = context_.launcher.start(arm.spec, arm.spec.arm);
      arm.result.engaged = arm.group->engaged();
      arm.result.places = arm.group->places();
    } catch (const Error& error) {
      note_failure(arm, error, false);
    }
  }
}

// Measures the arms that run. An arm that breaks is left out and the others are measured again for
// a while, so that their step times are in the record.
void CaseRunner::measure_arms() {
  std::vector<Arm*> live;
  for (Arm& arm : arms_) {
    if (arm.group) live.push_back(&arm);
  }
  MeasureSettings settings = suite_.measure;
  const auto on_progress = [&](const MeasureProgress& progress) {
    const double total = progress.elapsed_seconds + progress.remaining_seconds;
    const double share = total > 0 ? progress.elapsed_seconds / total : 0;
    std::string words = fmt::format("measuring, round {}", progress.round);
    if (progress.half_width_ratio > 0) {
      words += fmt::format(", interval +-{}", format_percent(progress.half_width_ratio, 2));
    }
    report(words, kMeasureFrom + (kProveFrom - kMeasureFrom) * share);
  };
  // One arm alone has nothing to be compared with; why the others broke is in the record.
  while (live.size() >= 2) {
    report("measuring, warm-up", kMeasureFrom);
    std::vector<TimedGroup> groups;
    groups.reserve(live.size());
    std::vector<TimedArm*> timed;
    for (Arm* arm : live) timed.push_back(&groups.emplace_back(*arm->group));
    const Measurement measurement =
        measure(timed, settings, planned_.seed, steady_clock(), on_progress);
    take(measurement, live);
    if (!measurement.failure) return;
    const ArmFailure& failure = *measurement.failure;
    note_failure(*live.at(failure.arm), Error(failure.kind, failure.message), true);
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(failure.arm));
    settings.rounds_max = settings.rounds_min;
  }
}

void CaseRunner::take(const Measurement& measurement, const std::vector<Arm*>& arms) {
  for (size_t i = 0; i < arms.size(); ++i) {
    ArmResult& result = arms[i]->result;
    result.blocks = measurement.blocks.at(i);
    result.warmup_step_time_seconds = measurement.warmup_step_seconds.at(i);
    result.step_time_seconds = step_time(result.blocks, suite_.measure.confidence);
    result.memory_peak_bytes = arms[i]->group->memory_peak_bytes();
    result.fills_per_step = arms[i]->group->fills_per_step();
    if (result.step_time_seconds && result.step_time_seconds->value > 0) {
      result.tokens_per_second =
          static_cast<double>(planned_.tokens_per_step()) / result.step_time_seconds->value;
    }
  }
}

ProfileContext CaseRunner::profile_context(const std::string& folder) {
  ProfileContext context{planned_, suite_, context_.folder / folder / record_.case_id, 0, {}};
  std::filesystem::create_directories(context.folder);
  const auto& fast = arms_[kFast].result.step_time_seconds;
  context.step_seconds = fast ? fast->value : 0;
  return context;
}

// In the very processes that were timed, after all that counts.
void CaseRunner::profile() {
  if (!suite_.profile.arms || arms_[kFast].broken()) return;
  std::vector<ArmGroup*> groups = {arms_[kFast].group.get()};
  for (size_t i = kControl + 1; i < arms_.size(); ++i) {
    if (!arms_[i].broken()) groups.push_back(arms_[i].group.get());
  }
  if (groups.size() == 1) return;
  ProfileContext context = profile_context("profiles");
  context.on_stage = [&](const std::string& stage) { report(stage, kProfileFrom); };
  record_.profiles = profile_arms(groups, context);
}

// What goes wrong here leaves the rest of the record as it is, with the reason in place of a matrix.
void CaseRunner::ablate() {
  if (!suite_.profile.ablate || arms_[kFast].broken()) return;
  const Mode* mode = control_mode(suite_);
  if (mode == nullptr) return;
  ProfileContext context = profile_context("ablation");
  context.on_stage = [&](const std::string& stage) { report(stage, kAblateFrom); };
  try {
    record_.ablation = run_ablation(context_.launcher, *mode, record_.evidence.controls, context);
  } catch (const Error& error) {
    throw_if_interrupted();
    record_.ablation = Ablation{};
    record_.ablation->arm = mode->name;
    record_.ablation->refusal = error.what();
  }
}

void CaseRunner::prove() {
  const double from = elapsed_seconds();
  const LedgerFolders folders = ledger_folders(context_.folder, record_.case_id);
  std::filesystem::create_directories(folders.ledgers);
  int done = 0;
  const int total = std::max(1, ledger_runs(planned_, suite_));
  LedgerRuns runs(suite_.evidence, context_.launcher, folders, [&](const std::string& what) {
    const double share = std::min(1.0, static_cast<double>(done++) / total);
    report("evidence: " + what, kProveFrom + (kControlFrom - kProveFrom) * share);
  });
  const auto each = [&](const auto& body) {
    for (Arm& arm : arms_) {
      if (arm.broken()) continue;
      try {
        body(arm);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::timeout &&
            elapsed_seconds() > suite_.measure.case_timeout_seconds) {
          throw;
        }
        note_failure(arm, error, true);
      }
    }
  };
  // In the very processes that were timed.
  each([&](Arm& arm) { runs.in_process(*arm.group, suite_.evidence.runs); });
  for (Arm& arm : arms_) arm.group.reset();
  for (const std::string& words : runs.not_saved()) {
    if (context_.on_not_saved) context_.on_not_saved(words);
  }
  // Control is itself a relaunch of fast.
  each([&](Arm& arm) {
    if (&arm != &arms_[kControl]) runs.relaunched(arm.spec);
  });
  report("evidence: comparing", kControlFrom);
  record_.evidence = assemble_evidence(read_ledgers(runs.files(), context_.folder));
  control(folders.ledgers, std::max(kLeastControlSeconds, elapsed_seconds() - from));
}

// Why the controls of an arm would say nothing.
std::optional<std::string> why_no_controls(const Arm& arm, const Record& record,
                                           const EvidenceSettings& settings) {
  if (!settings.controls) return "evidence.controls is off";
  if (arm.broken()) return arm.spec.arm + " itself broke";
  const ArmEvidence* evidence = find_evidence(record, arm.spec.arm);
  if (evidence != nullptr && evidence->reproducible) return std::nullopt;
  return arm.spec.arm + " itself did not reproduce its bits";
}

void CaseRunner::control(const std::filesystem::path& folder, double cap_seconds) {
  const Mode* mode = control_mode(suite_);
  if (mode == nullptr) return;
  const auto arm = std::find_if(arms_.begin(), arms_.end(),
                                [&](const Arm& one) { return one.spec.arm == mode->name; });
  ControlRuns controls(
      arm->spec, {suite_.evidence.steps, cap_seconds, folder,
                  [&](const std::string& what) { report("evidence: " + what, kControlFrom); }});
  if (const auto reason = why_no_controls(*arm, record_, suite_.evidence)) {
    controls.explain(*reason);
  } else {
    try {
      controls.run(context_.launcher);
    } catch (const Error& error) {
      throw_if_interrupted();
      controls.explain(error.what());
    }
  }
  record_.evidence.controls = controls.rows();
}

void CaseRunner::fill_taxes() {
  const Arm& fast = arms_.at(kFast);
  const Arm& control = arms_.at(kControl);
  if (fast.broken()) return;
  for (size_t i = kControl + 1; i < arms_.size(); ++i) {
    const Arm& arm = arms_[i];
    if (arm.broken()) continue;
    auto tax = estimate_tax(arm.spec.arm, arm.result.blocks, fast.result.blocks,
                            control.broken() ? std::vector<Block>{} : control.result.blocks,
                            suite_.measure.confidence);
    if (tax) record_.taxes.push_back(std::move(*tax));
  }
}

}  // namespace

std::vector<ArmSpec> arm_specs(const Case& planned, const Suite& suite) {
  std::vector<ArmSpec> specs = {{"fast", planned, suite.fast}, {"control", planned, suite.fast}};
  for (const Mode& mode : suite.modes) specs.push_back({mode.name, planned, mode});
  return specs;
}

Record run_case(const Case& planned, const CaseContext& context) {
  return CaseRunner(planned, context).run();
}

}  // namespace dettax
