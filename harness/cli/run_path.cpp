#include "harness/cli/run_path.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

// By name, which begins with the time.
std::vector<std::string> run_names() {
  std::vector<std::string> names;
  std::error_code missing, other;
  for (std::filesystem::directory_iterator entry(default_runs_folder(), missing), end;
       !missing && entry != end; entry.increment(missing)) {
    if (entry->is_directory(other)) names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::filesystem::path default_runs_folder() { return std::filesystem::path("results") / "runs"; }

std::filesystem::path find_run(const std::string& text) {
  const std::vector<std::string> names = run_names();
  if (text == "latest") {
    if (names.empty()) {
      throw Error(ErrorKind::config,
                  fmt::format("there is no run under {}", default_runs_folder().string()));
    }
    return default_runs_folder() / names.back();
  }
  std::error_code other;
  if (std::filesystem::is_directory(text, other)) return text;
  if (std::find(names.begin(), names.end(), text) != names.end())
    return default_runs_folder() / text;
  throw Error(ErrorKind::config,
              fmt::format("there is no run folder \"{}\"; a path, a name under {} or \"latest\" is "
                          "expected",
                          text, default_runs_folder().string()));
}

RunFolder open_run(const std::string& text) { return RunFolder::open(find_run(text)); }

}  // namespace dettax
