#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "harness/base/error.h"

namespace dettax {

// What the process tells its caller: the only place that knows the numbers. Every command obeys it.
// 128 + n stands for signal n (see exit_code_of_signal).
enum class ExitCode : int {
  pass = 0,
  fail = 1,
  usage = 2,
  inconclusive = 3,
  infrastructure = 4,
  not_bit_exact = 5,
  internal = 70,
  skipped = 77,
  timeout = 124,
};

struct ExitCodeInfo {
  ExitCode code;
  std::string_view meaning;  // one line for --help
};
const std::vector<ExitCodeInfo>& exit_code_table();

ExitCode exit_code_of(ErrorKind kind);
ExitCode exit_code_of_signal(int signal);

// Place in falling precedence, the worst first: a signal, internal, usage, not_bit_exact, timeout,
// infrastructure, fail, inconclusive, pass, skipped.
int severity(ExitCode code);

// One code for many results: the worst. Skipped only if everything was skipped (or there was nothing
// at all, which must not read as a pass).
ExitCode combine(std::span<const ExitCode> codes);

}  // namespace dettax
