#include "harness/cli/ledger_pairs.h"

#include <array>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/cli/export_options.h"
#include "harness/cli/run_inputs.h"
#include "harness/cli/run_path.h"
#include "harness/evidence/promise.h"
#include "results/journal.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

namespace fs = std::filesystem;

// Ledgers of a run by their path in it.
std::map<std::string, fs::path> ledgers_in(const fs::path& run) {
  const fs::path folder = run / "ledgers";
  std::error_code error, other;
  if (!fs::is_directory(folder, error))
    throw Error(ErrorKind::config, fmt::format("{}: has no folder ledgers; a run folder with "
                                               "evidence, or a ledger file, is expected",
                                               run.string()));
  std::map<std::string, fs::path> found;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!entry->is_regular_file(other) || !name.ends_with(".ledger")) continue;
    if (name.find(".weak_") != name.npos) continue;
    found[entry->path().lexically_relative(folder).string()] = entry->path();
  }
  if (error)
    throw Error(ErrorKind::config, fmt::format("{}: cannot be read with all in it: {}",
                                               folder.string(), error.message()));
  return found;
}

}  // namespace

bool are_ledger_files(const std::string& command, const std::string& a, const std::string& b,
                      bool chosen) {
  std::error_code neither;
  const bool file_a = fs::is_regular_file(a, neither), file_b = fs::is_regular_file(b, neither);
  if (file_a != file_b)
    throw Error(
        ErrorKind::usage,
        fmt::format("{}: {} and {}: two ledger files or two runs are expected", command, a, b));
  if (file_a && chosen)
    throw Error(ErrorKind::usage,
                command + ": --arm and --case choose among the ledgers of two runs");
  return file_a;
}

fs::path run_around(const fs::path& ledger) {
  const fs::path ledgers = fs::absolute(ledger).lexically_normal().parent_path().parent_path();
  return ledgers.filename() == "ledgers" ? ledgers.parent_path() : fs::path();
}

fs::path run_of_ledger(const fs::path& ledger) {
  const fs::path run = run_around(ledger);
  return !run.empty() && fs::exists(run / "suite.yaml") ? run : fs::path();
}

std::vector<NamedFile> files_read(const std::string& a, const std::string& b, bool files) {
  std::vector<NamedFile> read;
  for (const auto& [what, name] : {NamedFile{"A", a}, NamedFile{"B", b}}) {
    if (files) read.push_back({what, name});
    const fs::path run = files ? run_of_ledger(name) : find_run(name);
    if (run.empty()) continue;
    // A ledger is read also where its run has lost its journal.
    if (files && !fs::exists(run / kJournalName)) {
      for (const char* kept : {"suite.yaml", kRunLockName, "ledgers", "checkpoints"})
        read.push_back({what, (run / kept).string()});
      continue;
    }
    for (NamedFile& kept : files_of_run(what, RunFolder::open(run))) read.push_back(kept);
  }
  return read;
}

void require_other_folder(const std::string& flag, const std::string& folder,
                          const std::vector<NamedFile>& inputs) {
  if (folder.empty()) return;
  for (const NamedFile& input : inputs) {
    if (lies_in(folder, input.file))
      throw Error(ErrorKind::usage, fmt::format("{} {}: lies in {}, which is read as {}; another "
                                                "folder is needed",
                                                flag, folder, input.file, input.what));
  }
}

LedgerPairs pair_ledgers(const fs::path& run_a, const fs::path& run_b, const std::string& case_id,
                         const std::string& arm) {
  const auto in_a = ledgers_in(run_a), in_b = ledgers_in(run_b);
  const auto wanted = [&](const std::string& place) {
    const LedgerPlace at = ledger_place(place);
    return (arm.empty() || at.arm == arm) && (case_id.empty() || at.case_id == case_id);
  };
  LedgerPairs found;
  const auto miss = [&](const std::string& place, const fs::path& run) {
    found.missing.push_back(fmt::format("{} is missing in {}", place, run.string()));
  };
  for (const auto& [place, path] : in_a) {
    if (!wanted(place)) continue;
    const auto other = in_b.find(place);
    if (other == in_b.end()) {
      miss(place, run_b);
    } else {
      found.pairs.push_back({place, path, other->second});
    }
  }
  for (const auto& [place, path] : in_b) {
    if (wanted(place) && !in_a.contains(place)) miss(place, run_a);
  }
  return found;
}

std::vector<Record> records_of_both(const fs::path& a, const fs::path& b) {
  std::vector<Record> records = RunFolder::open(a).records();
  for (Record& record : RunFolder::open(b).records()) records.push_back(std::move(record));
  return records;
}

bool is_promised(const std::string& place, const std::vector<Record>& records,
                 const LedgerDiff& diff, std::ostream& err) {
  const std::array heads{diff.a.head, diff.b.head};
  const std::optional<bool> promise = promise_of(ledger_place(place), records, heads);
  if (!promise)
    err << fmt::format(
        "dettax: {}: neither record nor ledger says whether its mode promises its bits; judged "
        "as if it did\n",
        place);
  return promise.value_or(true);
}

}  // namespace dettax
