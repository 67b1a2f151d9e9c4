#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/exit_code.h"
#include "results/record.h"

namespace dettax {

// Why a verdict is what it is: a closed list, so that a scheduler or a dashboard can act on the
// code.
struct ReasonInfo {
  std::string_view code;
  Status status;
  ExitCode exit_code;
  std::string_view sentence;  // what it means, for people
};
const std::vector<ReasonInfo>& reason_table();
// Error{config} if there is no such code.
const ReasonInfo& reason_info(std::string_view code);

// What a status alone ends with, where no reason says more.
ExitCode exit_code_of(Status status);

// The code an exception of this kind becomes in a record.
std::string_view reason_code_of(ErrorKind kind);

// A verdict of this code; `detail` follows the table's sentence.
Verdict make_verdict(std::string_view code, const std::string& detail);

// What a shell sees of several verdicts, by the precedence of exit_code.h.
ExitCode combined_exit_code(const std::vector<Record>& records);

}  // namespace dettax
