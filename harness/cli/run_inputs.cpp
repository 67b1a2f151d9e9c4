#include "harness/cli/run_inputs.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/cli/run_path.h"
#include "results/journal.h"

namespace dettax {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 3;
constexpr size_t kHeadBytes = 4096;

// Whether a file is a record, by its first keys and by its name, which is that of its case.
bool is_record(const fs::path& file) {
  if (file.extension() != ".json") return false;
  std::ifstream in(file);
  std::string head(kHeadBytes, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(in.gcount()));
  return head.find("\"schema_version\"") != head.npos && head.find("\"run_id\"") != head.npos &&
         head.find("\"" + file.stem().string() + "\"") != head.npos;
}

// What vanished meanwhile, and what stands for nothing, is no run; what cannot be looked at might be one.
void require_readable(const fs::path& path, const std::error_code& error) {
  for (const std::errc none : {std::errc::no_such_file_or_directory, std::errc::not_a_directory,
                               std::errc::too_many_symbolic_link_levels}) {
    if (!error || error == none) return;
  }
  throw Error(ErrorKind::config,
              fmt::format("{}: cannot be read: {}", path.string(), error.message()));
}

std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    entries.push_back(*entry);
  require_readable(folder, error);
  return entries;
}

void require_no_records(const fs::path& folder, const std::vector<fs::directory_entry>& entries) {
  std::error_code error;
  for (const fs::directory_entry& entry : entries) {
    if (entry.is_regular_file(error) && is_record(entry.path()))
      throw Error(ErrorKind::config,
                  fmt::format("{}: has records but no {}, which says what was planned; put it "
                              "back, or take the folder away",
                              folder.string(), kJournalName));
  }
}

void collect(const fs::path& folder, int depth, std::set<fs::path>& found) {
  std::error_code error;
  if (fs::is_regular_file(folder / kJournalName, error)) {
    const fs::path run = fs::canonical(folder, error);
    require_readable(folder, error);
    if (!error) found.insert(run);
    return;
  }
  require_readable(folder, error);
  const std::vector<fs::directory_entry> entries = entries_of(folder);
  require_no_records(folder, entries);
  if (depth == kDeepest) return;
  for (const fs::directory_entry& entry : entries) {
    if (entry.is_directory(error)) {
      collect(entry.path(), depth + 1, found);
    } else {
      require_readable(entry.path(), error);
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

std::vector<NamedFile> files_of_run(const std::string& what, const RunFolder& folder) {
  std::vector<NamedFile> files;
  const auto add = [&](const std::string& name) {
    files.push_back({what, (folder.path() / name).string()});
  };
  for (const char* name : {"suite.yaml", kJournalName, kRunLockName, "ledgers", "checkpoints"})
    add(name);
  for (const JournalEntry& entry : read_journal(folder.path())) {
    if (entry.event == kPlannedEvent) add(entry.case_id + ".json");
  }
  return files;
}

AcceptanceContext recorded_context(const std::vector<RunFolder>& folders) {
  // Words and the runs that say them, in the order in which they were first said.
  std::vector<std::pair<std::string, std::vector<std::string>>> notes;
  std::vector<std::string> not_idle;
  for (const RunFolder& folder : folders) {
    for (const JournalEntry& entry : read_journal(folder.path())) {
      if (entry.event == kNoteEvent) {
        auto said =
            std::ranges::find(notes, entry.detail, [](const auto& one) { return one.first; });
        if (said == notes.end()) said = notes.insert(notes.end(), {entry.detail, {}});
        if (said->second.empty() || said->second.back() != folder.run_id())
          said->second.push_back(folder.run_id());
      } else if (entry.event == kNotIdleEvent) {
        not_idle.push_back(folders.size() > 1 ? folder.run_id() + ": " + entry.detail
                                              : entry.detail);
      }
    }
  }
  AcceptanceContext context;
  for (const auto& [note, runs] : notes)
    context.notes.push_back(runs.size() >= folders.size() ? note : join(runs, ", ") + ": " + note);
  context.not_idle = join(not_idle, "; ");
  return context;
}

std::vector<AcceptanceInput> acceptance_inputs(const RunFolder& folder) {
  const std::vector<JournalEntry> journal = read_journal(folder.path());
  std::vector<AcceptanceInput> inputs;
  for (Record& record : folder.records(journal)) {
    const int started = std::max(1, attempts(journal, record.case_id));
    inputs.push_back({std::move(record), started});
  }
  return inputs;
}

}  // namespace dettax
