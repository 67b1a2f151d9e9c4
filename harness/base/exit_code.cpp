#include "harness/base/exit_code.h"

#include <algorithm>
#include <iterator>

namespace dettax {

const std::vector<ExitCodeInfo>& exit_code_table() {
  static const std::vector<ExitCodeInfo> kTable = {
      {ExitCode::pass, "pass"},
      {ExitCode::fail, "verdict fail: overhead over the limit, or training gave non-finite values"},
      {ExitCode::usage, "usage or configuration error"},
      {ExitCode::inconclusive,
       "inconclusive: noise above what can be detected, or nothing to judge"},
      {ExitCode::infrastructure, "infrastructure error, or incomplete matrix"},
      {ExitCode::not_bit_exact, "determinism violated, or the mode did not engage"},
      {ExitCode::internal, "internal error of dettax; please report it"},
      {ExitCode::skipped, "everything was skipped, or is not available here"},
      {ExitCode::timeout, "timeout"},
  };
  return kTable;
}

ExitCode exit_code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
    case ErrorKind::config:
      return ExitCode::usage;
    case ErrorKind::infrastructure:
      return ExitCode::infrastructure;
    case ErrorKind::unsupported:
      return ExitCode::skipped;
    case ErrorKind::numeric:
      return ExitCode::fail;
    case ErrorKind::nondeterministic:
      return ExitCode::not_bit_exact;
    case ErrorKind::timeout:
      return ExitCode::timeout;
    case ErrorKind::internal:
      return ExitCode::internal;
  }
  return ExitCode::internal;
}

ExitCode exit_code_of_signal(int signal) { return static_cast<ExitCode>(128 + signal); }

int severity(ExitCode code) {
  static constexpr ExitCode kFalling[] = {
      ExitCode::internal,     ExitCode::usage,          ExitCode::not_bit_exact,
      ExitCode::timeout,      ExitCode::infrastructure, ExitCode::fail,
      ExitCode::inconclusive, ExitCode::pass,           ExitCode::skipped};
  if (static_cast<int>(code) > 128) return -1;
  return static_cast<int>(std::ranges::find(kFalling, code) - std::begin(kFalling));
}

ExitCode combine(std::span<const ExitCode> codes) {
  const auto worst = std::ranges::min_element(codes, {}, severity);
  return worst == codes.end() ? ExitCode::skipped : *worst;
}

}  // namespace dettax
