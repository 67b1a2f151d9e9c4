#include "harness/cli/run_inputs.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "harness/base/error.h"
#include "harness/cli/run_path.h"

namespace dettax {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 3;

void collect(const fs::path& folder, int depth, std::set<fs::path>& found) {
  if (fs::is_regular_file(folder / kJournalName)) {
    found.insert(fs::canonical(folder));
  } else if (depth < kDeepest) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.is_directory()) collect(entry.path(), depth + 1, found);
    }
  }
}

}  // namespace

std::vector<RunFolder> find_runs(const std::vector<std::string>& names) {
  std::set<fs::path> paths;
  for (const std::string& name : names) {
    std::set<fs::path> below;
    collect(find_run(name), 0, below);
    if (below.empty()) throw Error(ErrorKind::config, name + ": is no run folder and holds none");
    paths.merge(below);
  }
  std::vector<RunFolder> folders;
  for (const fs::path& path : paths) folders.push_back(RunFolder::open(path));
  return folders;
}

std::vector<AcceptanceInput> acceptance_inputs(const RunFolder& folder) {
  std::vector<AcceptanceInput> inputs;
  for (Record& record : folder.records()) {
    const int attempts = std::max(1, folder.attempts(record.case_id));
    inputs.push_back({std::move(record), attempts});
  }
  return inputs;
}

}  // namespace dettax
