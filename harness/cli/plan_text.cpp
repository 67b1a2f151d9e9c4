#include "harness/cli/plan_text.h"

#include <algorithm>
#include <ostream>

#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/launch/controls.h"
#include "harness/launch/guards.h"
#include "harness/launch/ledgers.h"
#include "harness/launch/memory.h"
#include "harness/launch/profile_rounds.h"
#include "harness/plan/claims.h"
#include "harness/plan/crowding.h"
#include "harness/plan/toggles.h"

namespace dettax {
namespace {

// Two fused multiply-adds of eight floats each cycle, which every core with AVX2 can do, of which real steps reach half and more.
constexpr double kFlopsPerCycle = 32;
constexpr double kReachedShare = 0.5;
constexpr double kAssumedFrequencyHz = 2.5e9;  // where the machine does not say
constexpr double kGroupStartSeconds = 0.1;
// A step whose every op is fingerprinted against a plain one.
constexpr double kLedgerStepFactor = 2;

std::string things(size_t count, const char* thing) {
  return format_things(static_cast<int64_t>(count), thing);
}

// What they will take of the disk.
void write_checkpoints(std::ostream& out, const Case& planned, const Suite& suite) {
  const int each = suite.evidence.checkpoints();
  const auto arms = std::ranges::count_if(suite.modes, &Mode::claims_reproducible);
  if (each == 0 || arms == 0) return;
  const auto bytes = static_cast<double>(each * arms * checkpoint_bytes(planned));
  out << fmt::format("  checkpoints: {} of {}, about {} in the run folder\n", each,
                     format_things(arms, "arm"), format_bytes(bytes));
}

void write_case(std::ostream& out, const Case& planned, const Suite& suite, int64_t available_bytes,
                int cores, bool& runs) {
  out << planned.id() << '\n';
  out << fmt::format(
      "  {}: {} parameters{}, {}, {} a step, {} a rank, {} FLOP a step\n", planned.model.name,
      format_count(static_cast<double>(parameter_count(planned.model))),
      planned.model.layers < planned.model.published_layers
          ? fmt::format(" ({} of {} layers: a proxy)", planned.model.layers,
                        planned.model.published_layers)
          : "",
      to_string(planned.layout), format_things(planned.micro_batches(), "micro-batch"),
      format_things(planned.topology.threads_per_rank, "thread"),
      format_count(
          flops_per_step(planned.model, planned.tokens_per_step(), planned.batch.sequence_length)));
  const auto reason = case_refusal(planned, suite, available_bytes);
  runs = !reason;
  if (reason) {
    out << "  refused: " << *reason << '\n';
    return;
  }
  const Case placed = on_its_node(planned, suite);
  const std::string crowd = oversubscription(placed, cores);
  if (!crowd.empty()) out << "  " << crowd << '\n';
  const auto arm = [&](const std::string& name, const Mode& mode) {
    const auto bytes = static_cast<double>(estimate_memory(placed, mode).total());
    out << fmt::format("  arm {:<28} mode {} {}, about {}\n", name, mode.name, mode.hash,
                       format_bytes(bytes));
  };
  arm("fast", suite.fast);
  arm("control", suite.fast);
  for (const Mode& mode : suite.modes) arm(mode.name, mode);
  out << fmt::format("  memory about {} of {} available; at most about {} on an idle machine\n",
                     format_bytes(static_cast<double>(case_memory_bytes(planned, suite))),
                     format_bytes(static_cast<double>(available_bytes)),
                     format_seconds(estimate_case_seconds(planned, suite, cores)));
  write_checkpoints(out, planned, suite);
}

void write_unmet_claims(std::ostream& out, const Mode& mode) {
  for (const UnmetClaim& claim : unmet_claims(mode)) {
    out << fmt::format("  warning: mode {}: knob {}: {}; its evidence may fail\n", mode.name,
                       knob_name(claim.knob), in_words(claim, mode.knobs));
  }
}

}  // namespace

double estimate_step_seconds(const Case& planned, int cores) {
  const double frequency = sample_machine().frequency_hz;
  const int threads = planned.layout.ranks() * planned.topology.threads_per_rank;
  const double peak =
      std::min(threads, cores) * kFlopsPerCycle * (frequency > 0 ? frequency : kAssumedFrequencyHz);
  return flops_per_step(planned.model, planned.tokens_per_step(), planned.batch.sequence_length) /
         (kReachedShare * peak);
}

namespace {

// Of recorded steps, apart from all else.
double estimate_profile_seconds(const Case& planned, const Suite& suite, double step) {
  const ProfileSettings& profile = suite.profile;
  const auto rounds = [&](size_t arms) {
    return rounds_seconds(plan_rounds(arms, step, profile.budget_seconds), arms, step);
  };
  double seconds = 0;
  if (profile.arms) seconds += rounds(suite.modes.size() + 1);
  const Mode* mode = control_mode(suite);
  if (!profile.ablate || mode == nullptr) return seconds;
  const size_t groups = 2 * toggles(planned, suite.fast, *mode).size() + 2;
  // The set of knobs that is enough is then timed with a part of the budget.
  return seconds + static_cast<double>(groups) * kGroupStartSeconds + rounds(groups) +
         profile.budget_seconds;
}

}  // namespace

double estimate_case_seconds(const Case& planned, const Suite& suite, int cores) {
  const double step = estimate_step_seconds(planned, cores);
  const auto arms = static_cast<double>(suite.modes.size() + 2);
  const double runs = ledger_runs(planned, suite);
  const double warmup = arms * suite.measure.warmup_steps_max * step;
  const double ledger = kLedgerStepFactor * suite.evidence.steps * step;
  const double ledgers =
      runs * (kGroupStartSeconds + ledger) + control_ledgers(planned, suite) * ledger;
  return arms * kGroupStartSeconds + warmup + suite.measure.budget_seconds + ledgers +
         estimate_profile_seconds(planned, suite, step);
}

size_t write_plan(std::ostream& out, const Suite& suite, int64_t available_bytes, int cores) {
  size_t running = 0;
  double seconds = 0;
  out << fmt::format("suite {} ({}): {}, {} beside fast\n", suite.name, suite.hash,
                     things(suite.cases.size(), "case"), things(suite.modes.size(), "mode"));
  for (const Mode& mode : suite.modes) write_unmet_claims(out, mode);
  for (const Case& planned : suite.cases) {
    bool runs = false;
    write_case(out, planned, suite, available_bytes, cores, runs);
    if (!runs) continue;
    ++running;
    seconds += estimate_case_seconds(planned, suite, cores);
  }
  out << fmt::format("{} of {} would run, in at most about {} on an idle machine\n", running,
                     things(suite.cases.size(), "case"), format_seconds(seconds));
  return running;
}

}  // namespace dettax
