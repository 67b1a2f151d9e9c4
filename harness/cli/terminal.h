#pragma once

#include <string>

namespace dettax {

bool is_terminal(int descriptor);
// Columns, 100 where it is no terminal.
int terminal_width(int descriptor);
// --color auto|always|never; auto looks at the terminal, and at NO_COLOR and TERM.
bool use_colour(const std::string& choice, int descriptor);

}  // namespace dettax
