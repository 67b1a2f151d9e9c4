#include "results/reason.h"

namespace dettax {

const char* to_string(Status status) {
  switch (status) {
    case Status::pass:
      return "pass";
    case Status::fail:
      return "fail";
    case Status::inconclusive:
      return "inconclusive";
    case Status::skipped:
      return "skipped";
    case Status::error:
      return "error";
  }
  return "error";
}

ExitCode exit_code_of(Status status) {
  switch (status) {
    case Status::pass:
      return ExitCode::pass;
    case Status::fail:
      return ExitCode::fail;
    case Status::inconclusive:
      return ExitCode::inconclusive;
    case Status::skipped:
      return ExitCode::skipped;
    case Status::error:
      return ExitCode::infrastructure;
  }
  return ExitCode::internal;
}

const char* to_string(ControlStatus status) {
  switch (status) {
    case ControlStatus::caught:
      return "caught";
    case ControlStatus::misplaced:
      return "misplaced";
    case ControlStatus::not_shown:
      return "not_shown";
    case ControlStatus::not_run:
      return "not_run";
  }
  return "not_run";
}

// NOLINTNEXTLINE(readability-function-size): a table
const std::vector<ReasonInfo>& reason_table() {
  static const std::vector<ReasonInfo> kTable = {
      {"within_limit", Status::pass, ExitCode::pass, "The overhead is within the limit."},
      {"measured", Status::pass, ExitCode::pass,
       "The overhead is known to the resolution asked for."},
      {"emulated", Status::pass, ExitCode::pass,
       "Bits were judged; speed was not, since it is not that of the hardware meant."},
      {"over_limit", Status::fail, ExitCode::fail, "The overhead is over the limit."},
      {"non_finite", Status::fail, ExitCode::fail, "An arm did not train: a value was not finite."},
      {"not_resolved", Status::inconclusive, ExitCode::inconclusive,
       "The interval does not decide."},
      {"no_claim", Status::inconclusive, ExitCode::inconclusive,
       "No mode claims to reproduce its bits, so that no tax is judged."},
      {"control_differs", Status::inconclusive, ExitCode::inconclusive,
       "The control arm differs from fast though it is the same: the machine is not quiet enough "
       "to compare arms."},
      {"not_reproducible", Status::fail, ExitCode::not_bit_exact,
       "A deterministic arm did not reproduce its bits."},
      {"no_evidence", Status::fail, ExitCode::not_bit_exact,
       "A deterministic arm has no evidence, so its speed counts for nothing."},
      {"mode_not_engaged", Status::fail, ExitCode::not_bit_exact, "A mode did not engage."},
      {"not_runnable_deterministically", Status::fail, ExitCode::not_bit_exact,
       "Not runnable deterministically."},
      {"unprotected_op", Status::fail, ExitCode::not_bit_exact,
       "The deterministic mode covers only a part of the step."},
      {"restart_loop", Status::fail, ExitCode::fail,
       "The run is started again and again from one checkpoint and ends in NaN each time."},
      {"no_evidence_in_log", Status::inconclusive, ExitCode::inconclusive,
       "The log names no op without a deterministic version; whether bits repeat it does not say."},
      {"no_measurement", Status::error, ExitCode::infrastructure,
       "There are too few rounds for an interval."},
      {"rank_crashed", Status::error, ExitCode::infrastructure,
       "A rank ended before its work was done."},
      {"hang", Status::error, ExitCode::infrastructure, "A rank made no progress."},
      {"infrastructure", Status::error, ExitCode::infrastructure,
       "The machine did not do its part."},
      {"incomplete", Status::error, ExitCode::infrastructure, "The case was not run to its end."},
      {"timeout", Status::error, ExitCode::timeout, "The time limit ended it."},
      {"configuration", Status::error, ExitCode::usage, "The configuration is wrong."},
      {"internal", Status::error, ExitCode::internal,
       "A fault of dettax itself; please report it."},
      // Of acceptance, where nodes are judged.
      {"accepted", Status::pass, ExitCode::pass, "The node keeps every rule."},
      {"slow_node", Status::fail, ExitCode::fail, "The node is slower than its fleet."},
      {"odd_ratio", Status::fail, ExitCode::fail,
       "The node's deterministic step over its fast one is unlike its fleet's."},
      {"slow_rank", Status::fail, ExitCode::fail, "A rank is slower than the others of its node."},
      {"low_throughput", Status::fail, ExitCode::fail, "The throughput is under the limit."},
      {"low_bandwidth", Status::fail, ExitCode::fail, "The bandwidth is under the limit."},
      {"wrong_results", Status::fail, ExitCode::fail,
       "A collective failed or computed wrong values."},
      {"over_memory", Status::fail, ExitCode::fail, "The memory is over the limit."},
      {"changed", Status::fail, ExitCode::fail,
       "It differs from the baseline by more than the baseline's own spread."},
      {"configuration_differs", Status::error, ExitCode::infrastructure,
       "The node's configuration differs from the fleet's."},
      {"bits_differ", Status::fail, ExitCode::not_bit_exact,
       "Its bits are not those of other nodes that are set up alike."},
      {"badly_measured", Status::inconclusive, ExitCode::inconclusive,
       "The node's own measurements are too uncertain, or too far apart, to judge it."},
      {"limit_unused", Status::inconclusive, ExitCode::inconclusive,
       "A limit that was asked for found nothing to judge."},
      {"fast_node", Status::inconclusive, ExitCode::inconclusive,
       "The node is faster than its fleet: a gain is flagged, not accepted by itself."},
      {"too_few_peers", Status::inconclusive, ExitCode::inconclusive,
       "There are too few nodes to say which of them is odd."},
      {"evidence_missing", Status::inconclusive, ExitCode::inconclusive,
       "The bits were not compared over all that is asked for."},
      {"too_many_attempts", Status::inconclusive, ExitCode::inconclusive,
       "It took more attempts than a sound machine needs."},
      {"not_idle", Status::inconclusive, ExitCode::inconclusive,
       "The machine did not become idle: nothing is said against it."},
      {"refused", Status::skipped, ExitCode::skipped, "The case cannot run here."},
  };
  return kTable;
}

const ReasonInfo& reason_info(std::string_view code) {
  for (const ReasonInfo& info : reason_table()) {
    if (info.code == code) return info;
  }
  throw Error(ErrorKind::config, "there is no reason code '" + std::string(code) + "'");
}

std::string_view reason_code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
    case ErrorKind::config:
      return "configuration";
    case ErrorKind::infrastructure:
      return "infrastructure";
    case ErrorKind::unsupported:
      return "refused";
    case ErrorKind::numeric:
      return "non_finite";
    case ErrorKind::nondeterministic:
      return "not_runnable_deterministically";
    case ErrorKind::timeout:
      return "timeout";
    case ErrorKind::internal:
      return "internal";
  }
  return "internal";
}

Verdict make_verdict(std::string_view code, const std::string& detail) {
  const ReasonInfo& info = reason_info(code);
  Verdict verdict;
  verdict.status = info.status;
  verdict.reason_code = info.code;
  verdict.reason = std::string(info.sentence) + (detail.empty() ? "" : " " + detail);
  verdict.exit_code = static_cast<int>(info.exit_code);
  return verdict;
}

ExitCode combined_exit_code(const std::vector<Record>& records) {
  std::vector<ExitCode> codes;
  for (const Record& record : records)
    codes.push_back(static_cast<ExitCode>(record.verdict.exit_code));
  return combine(codes);
}

}  // namespace dettax
