#pragma once

#include <string_view>
#include <vector>

namespace dettax {

// Files that the report carries within it, in pieces to be written one after the other.
using Asset = std::vector<std::string_view>;
const Asset& d3_script();  // d3 of Debian's node-d3, BSD-3-Clause
const Asset& report_script();
const Asset& report_style();

}  // namespace dettax
