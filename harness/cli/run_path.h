#pragma once

#include <filesystem>
#include <string>

#include "results/run_folder.h"

namespace dettax {

// Where runs go unless told otherwise.
std::filesystem::path default_runs_folder();

// The folder that RUN means: a path, the name of a run under the default folder, or "latest" there.
// Error{config} if there is none.
std::filesystem::path find_run(const std::string& text);
RunFolder open_run(const std::string& text);

}  // namespace dettax
