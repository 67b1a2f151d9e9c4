#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "exporters/table.h"
#include "exporters/text_layout.h"
#include "harness/base/exit_code.h"

namespace dettax {

// What the table and the comparison have in common.

inline constexpr size_t kIndent = 2;

size_t columns(const TableStyle& style);
Colour colour_of(ExitCode code);
std::string upper(std::string word);          // ASCII
std::string percent(double ratio);            // 1.031 -> "+3.10 %"; "unknown" if it is not finite
std::string interval(const Estimate& ratio);  // "[+2.10, +4.05] %"
std::string signed_seconds(double seconds);   // "+1.20 ms"
std::string time_interval(const Estimate& seconds);  // "[12.2, 12.4] ms"
// "caught: gemm norm; not shown: collectives (one rank)"; empty if there are none.
std::string control_words(const std::vector<KnobControl>& controls);
std::string meaning(ExitCode code);  // of exit_code_table()
// "exit code 1: verdict fail ..."
void write_exit_code(std::ostream& out, ExitCode code, const TableStyle& style);

}  // namespace dettax
