#include "harness/measure/verdict.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/base/quantiles.h"
#include "harness/measure/measure.h"
#include "results/reason.h"
#include "results/tax_limit.h"

namespace dettax {
namespace {

// Beyond this many rounds nobody waits: the tax is as good as on the limit.
constexpr double kRoundsAffordable = 1e5;
// The scatter is an estimate itself: less than a quarter more rounds is not worth advising.
constexpr double kLeastMore = 1.25;
// How many times the width asked for the control's own interval may have before a narrow one beside it is not believed.
constexpr double kControlLeeway = 3;

// "+3.1 % (2.1 to 4.2 %, 95 % interval, n = 8 rounds)"
std::string tax_words(const Estimate& ratio, double confidence) {
  return fmt::format("{} ({} to {}, {:g} % interval, n = {} rounds)",
                     format_signed_percent(ratio.value - 1), format_signed_percent(ratio.low - 1),
                     format_signed_percent(ratio.high - 1), 100 * confidence, ratio.count);
}

// --- what can be wrong before numbers count
// --------------------------------------------------------------------------------------

std::optional<Verdict> broken_arm(const Record& record) {
  std::optional<Verdict> worst;
  for (const ArmResult& arm : record.arms) {
    if (arm.failure_code.empty()) continue;
    const Verdict verdict = make_verdict(arm.failure_code, arm.arm + ": " + arm.failure);
    if (!worst) worst = verdict;
  }
  return worst;
}

std::optional<Verdict> not_engaged(const Record& record) {
  for (const ArmResult& arm : record.arms) {
    for (const auto* settings : {&arm.knobs, &arm.environment}) {
      for (const auto& [name, asked] : *settings) {
        const auto found = arm.engaged.find(name);
        if (found == arm.engaged.end() || found->second.empty() || found->second == asked) continue;
        return make_verdict("mode_not_engaged", fmt::format("{}: {} was to be {} and is {}.",
                                                            arm.arm, name, asked, found->second));
      }
    }
  }
  return std::nullopt;
}

bool claims_any(const Record& record) {
  return std::any_of(record.arms.begin(), record.arms.end(),
                     [](const ArmResult& arm) { return arm.claims_reproducible; });
}

std::string cause_words(const ScopeEvidence& scope) {
  return scope.cause.empty() ? "" : fmt::format(" Cause: {}; {}.", scope.cause, scope.advice);
}

std::optional<Verdict> missing_evidence(const Record& record, const Suite& suite) {
  for (const Mode& mode : suite.modes) {
    if (!mode.claims_reproducible) continue;
    const ArmEvidence* evidence = find_evidence(record, mode.name);
    if (evidence == nullptr)
      return make_verdict("no_evidence", mode.name + ": no ledger was recorded.");
    if (evidence->reproducible) continue;
    for (const ScopeEvidence& scope : evidence->scopes) {
      if (scope.tested && !scope.equal)
        return make_verdict("not_reproducible",
                            fmt::format("{}, {}: {}.{}", mode.name, scope.scope,
                                        scope.first_difference, cause_words(scope)));
    }
    if (evidence->ranks.tested && !evidence->ranks.equal)
      return make_verdict("not_reproducible", fmt::format("{}: ranks disagree: {}.", mode.name,
                                                          evidence->ranks.first_difference));
    return make_verdict("no_evidence", mode.name + ": no scope that counts was tested.");
  }
  return std::nullopt;
}

// --- numbers
// ---------------------------------------------------------------------------------------------------------------------

// Seconds that one round of all arms took.
double seconds_per_round(const Record& record) {
  double seconds = 0;
  std::set<int> rounds;
  for (const ArmResult& arm : record.arms) {
    for (const Block& block : arm.blocks) {
      rounds.insert(block.round);
      const double step = block_seconds(block);
      if (std::isfinite(step))
        seconds += step * static_cast<double>(block.step_time_seconds.front().size());
    }
  }
  return rounds.empty() ? 0 : seconds / static_cast<double>(rounds.size());
}

// Time until a log half-width of `wanted` is reached at the present scatter.
std::optional<double> seconds_until(const Record& record, const Estimate& ratio, double wanted,
                                    double confidence) {
  const double n = static_cast<double>(ratio.count);
  const double tail = (1 + confidence) / 2;
  const double deviation =
      std::log(ratio.high / ratio.low) / 2 * std::sqrt(n) / student_t_quantile(tail, n - 1);
  if (!(wanted > 0) || !std::isfinite(deviation)) return std::nullopt;
  const double normal_rounds =
      std::pow(student_t_quantile(tail, kRoundsAffordable) * deviation / wanted, 2);
  if (normal_rounds > kRoundsAffordable) return std::nullopt;
  double rounds = std::max(n + 1, std::floor(normal_rounds));
  while (student_t_quantile(tail, rounds - 1) * deviation / std::sqrt(rounds) > wanted) ++rounds;
  rounds = std::max(rounds, std::ceil(kLeastMore * n));
  const double seconds = (rounds - n) * seconds_per_round(record);
  return seconds > 0 ? std::optional(seconds) : std::nullopt;
}

std::string time_words(const std::optional<double>& seconds) {
  if (!seconds) return " More time is not likely to resolve it.";
  // Whole seconds, upwards: it is a guess.
  constexpr double kSaidInMinutes = 100;
  const double whole = std::ceil(*seconds);
  return fmt::format(
      " About {} more of measuring is likely to resolve it.",
      whole < kSaidInMinutes ? fmt::format("{:.0f} s", whole) : format_seconds(whole));
}

bool control_differs(const Estimate& control, double target) {
  return (control.low > 1 || control.high < 1) && std::abs(control.value - 1) > target;
}

// Time until the smallest detectable tax is `limit`: it shrinks as the widest interval does.
std::optional<double> seconds_until_detectable(const Record& record, const Tax& tax, double limit,
                                               double confidence) {
  const auto width = [](const Estimate& ratio) { return std::log(ratio.high / ratio.low); };
  const Estimate& own = tax.overhead_ratio;
  const Estimate& widest =
      tax.control_ratio && width(*tax.control_ratio) > width(own) ? *tax.control_ratio : own;
  if (certain_bias(tax.control_ratio) >= std::log(limit)) return std::nullopt;
  const double wanted =
      width(widest) / 2 * std::log(limit) / std::log(tax.min_detectable_overhead_ratio);
  return seconds_until(record, widest, wanted, confidence);
}

Verdict judge_with_limit(const Record& record, const Tax& tax, double limit, double confidence) {
  const TaxBesideLimit beside = tax_beside_limit(tax, limit);
  std::string words =
      fmt::format("{}: {}, limit {}.", tax.arm, tax_words(tax.overhead_ratio, confidence),
                  format_signed_percent(limit - 1));
  if (beside.over) return make_verdict("over_limit", words);
  if (beside.under && beside.visible) return make_verdict("within_limit", words);
  std::optional<double> seconds = 0.0;
  if (!beside.under) {
    const double room = std::abs(std::log(limit / tax.overhead_ratio.value)) - beside.bias;
    seconds = seconds_until(record, tax.overhead_ratio, room, confidence);
  }
  if (!beside.visible) {
    words += fmt::format(
        " This case tells a tax from none only from {} on, so that it could have missed one as "
        "large as the limit.",
        format_signed_percent(tax.min_detectable_overhead_ratio - 1));
    const auto more = seconds_until_detectable(record, tax, limit, confidence);
    seconds = seconds && more ? std::optional(std::max(*seconds, *more)) : std::nullopt;
  }
  Verdict verdict = make_verdict("not_resolved", words + time_words(seconds));
  verdict.seconds_needed = seconds;
  return verdict;
}

Verdict judge_without_limit(const Record& record, const Tax& tax, double target,
                            double confidence) {
  const std::string words =
      fmt::format("{}: {}.", tax.arm, tax_words(tax.overhead_ratio, confidence));
  const auto half_width = [](const Estimate& ratio) { return (ratio.high - ratio.low) / 2; };
  // A narrow interval beside a control that wanders is luck.
  const bool quiet =
      !tax.control_ratio || half_width(*tax.control_ratio) <= kControlLeeway * target;
  if (half_width(tax.overhead_ratio) <= target && quiet) return make_verdict("measured", words);
  if (!quiet && half_width(tax.overhead_ratio) <= target) {
    return make_verdict(
        "not_resolved",
        fmt::format("{} But fast against itself is uncertain by {}, more than {} "
                    "times what was asked for.",
                    words, format_percent(half_width(*tax.control_ratio)), kControlLeeway));
  }
  const std::optional<double> seconds = seconds_until(
      record, tax.overhead_ratio, std::log1p(target / tax.overhead_ratio.value), confidence);
  Verdict verdict =
      make_verdict("not_resolved", fmt::format("{} The interval was to be within {}.{}", words,
                                               format_percent(target), time_words(seconds)));
  verdict.seconds_needed = seconds;
  return verdict;
}

Verdict judge_tax(const Record& record, const Tax& tax, const Suite& suite) {
  const double target = suite.measure.target_half_width, confidence = suite.measure.confidence;
  if (tax.control_ratio && control_differs(*tax.control_ratio, target))
    return make_verdict("control_differs",
                        fmt::format("control: {}.", tax_words(*tax.control_ratio, confidence)));
  const std::optional<double>& limit = suite.thresholds.max_overhead_ratio;
  Verdict verdict = limit ? judge_with_limit(record, tax, *limit, confidence)
                          : judge_without_limit(record, tax, target, confidence);
  if (verdict.reason_code == "not_resolved" && tax.overhead_ratio.count >= suite.measure.rounds_max)
    verdict.reason +=
        fmt::format(" It ended at measure.rounds_max = {}.", suite.measure.rounds_max);
  return verdict;
}

Verdict judge_numbers(const Record& record, const Suite& suite) {
  std::vector<Verdict> verdicts;
  for (const Mode& mode : suite.modes) {
    if (!mode.claims_reproducible) continue;
    const auto tax = std::find_if(record.taxes.begin(), record.taxes.end(),
                                  [&](const Tax& one) { return one.arm == mode.name; });
    verdicts.push_back(tax == record.taxes.end()
                           ? make_verdict("no_measurement", mode.name + " has no interval.")
                           : judge_tax(record, *tax, suite));
  }
  if (verdicts.empty()) return make_verdict("no_measurement", "The suite has no mode beside fast.");
  std::vector<ExitCode> codes;
  for (const Verdict& verdict : verdicts) codes.push_back(static_cast<ExitCode>(verdict.exit_code));
  const int worst = static_cast<int>(combine(codes));
  return *std::find_if(verdicts.begin(), verdicts.end(),
                       [&](const Verdict& verdict) { return verdict.exit_code == worst; });
}

Verdict decide(const Record& record, const Suite& suite) {
  if (const auto verdict = broken_arm(record)) return *verdict;
  if (const auto verdict = not_engaged(record)) return *verdict;
  if (const auto verdict = missing_evidence(record, suite)) return *verdict;
  if (!suite.modes.empty() && !claims_any(record)) return make_verdict("no_claim", "");
  if (!record.precision_note.empty()) return make_verdict("emulated", record.precision_note);
  return judge_numbers(record, suite);
}

}  // namespace

void judge(Record& record, const Suite& suite) {
  for (Tax& tax : record.taxes) tax.published = false;
  // What was thrown for the whole case, and what an earlier judging said of a broken arm.
  const std::string& code = record.verdict.reason_code;
  const bool broke =
      record.verdict.status == Status::error || record.verdict.status == Status::skipped;
  const bool settled = code == "non_finite" || (broke && !code.empty() && code != "no_measurement");
  if (settled) return;
  for (Tax& tax : record.taxes) {
    const double bias = std::exp(certain_bias(tax.control_ratio));
    tax.min_detectable_overhead_ratio = std::max(tax.min_detectable_overhead_ratio, bias);
  }
  record.verdict = decide(record, suite);
  if (record.verdict.status == Status::error || record.verdict.reason_code == "non_finite") return;
  for (Tax& tax : record.taxes) {
    const ArmEvidence* evidence = find_evidence(record, tax.arm);
    tax.published = claims(record, tax.arm) && evidence != nullptr && evidence->reproducible &&
                    record.precision_note.empty() &&
                    record.verdict.reason_code != "mode_not_engaged";
  }
  if (record.evidence.fast_differed || record.evidence.blindness.empty()) return;
  std::string& reason = record.verdict.reason;
  if (!reason.ends_with('.')) reason += '.';
  reason += " Note: " + record.evidence.blindness;
}

}  // namespace dettax
