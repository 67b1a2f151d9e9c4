#pragma once

#include <map>
#include <string>

namespace dettax {

using Variables = std::map<std::string, std::string>;

// What this process was started with; what it has set itself since is not in it.
Variables start_environment();

// What became of a setting that libraries read once: its value if it was there from the start; "(not set)"; or that it came too late to
// count on, whatever its value.
std::string found_setting(const std::string& name, const Variables& at_start);

// Of these variables, what this process has now: what a child that is given them will not see.
Variables standing_values(const Variables& replaced);

}  // namespace dettax
