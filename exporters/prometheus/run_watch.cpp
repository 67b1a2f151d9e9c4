#include "exporters/prometheus/run_watch.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "results/journal.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

constexpr const char* kLock = "run.lock";

// Whether a process runs it now: it then holds the lock.
bool is_being_run(const std::filesystem::path& run) {
  const int descriptor = ::open((run / kLock).c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool held = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0;
  ::close(descriptor);
  return held;
}

// "20260301T120000Z-quick" -> "quick"
std::string suite_in(const std::string& run_id) {
  const size_t dash = run_id.find('-');
  return dash == std::string::npos ? run_id : run_id.substr(dash + 1);
}

}  // namespace

double RunWatch::age_seconds(const Run& run) const {
  const auto age = std::filesystem::file_time_type::clock::now() - run.journal_time;
  return std::max(0.0, std::chrono::duration<double>(age).count());
}

bool RunWatch::look() {
  bool changed = first_look_;
  std::error_code error;
  std::vector<std::string> there;
  for (std::filesystem::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!std::filesystem::is_regular_file(entry->path() / kJournalName, error)) continue;
    there.push_back(entry->path().filename().string());
    changed = look_at(entry->path()) || changed;
  }
  const size_t before = runs_.size();
  std::erase_if(runs_, [&](const auto& run) {
    const bool gone = std::find(there.begin(), there.end(), run.first) == there.end();
    return gone || (!run.second.up && age_seconds(run.second) > keep_seconds_);
  });
  changed = changed || runs_.size() != before;
  first_look_ = false;
  if (!changed) return false;
  std::vector<Record> records;
  unreadable_ = 0;
  for (const auto& [name, run] : runs_) {
    unreadable_ += run.readable ? 0 : 1;
    records.insert(records.end(), run.records.begin(), run.records.end());
  }
  metrics_ = metrics_of(records, {});
  return true;
}

bool RunWatch::look_at(const std::filesystem::path& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path / kJournalName, error);
  const auto time = std::filesystem::last_write_time(path / kJournalName, error);
  const bool up = is_being_run(path);
  if (error) return false;
  const std::string name = path.filename().string();
  const auto known = runs_.find(name);
  if (known == runs_.end()) {
    Run fresh;
    fresh.journal_time = time;
    if (!up && age_seconds(fresh) > keep_seconds_) return false;  // too old to begin with
  } else if (known->second.journal_bytes == bytes && known->second.journal_time == time &&
             known->second.up == up) {
    return false;
  }
  Run& run = runs_[name];
  run.journal_bytes = bytes;
  run.journal_time = time;
  run.up = up;
  read(path, run);
  return true;
}

void RunWatch::read(const std::filesystem::path& path, Run& run) {
  const int64_t events_before = run.finished_events;
  try {
    run.suite = suite_in(path.filename().string());
    run.planned = run.finished_events = 0;
    const std::vector<JournalEntry> journal = read_journal(path);
    for (const JournalEntry& entry : journal) {
      run.planned += entry.event == kPlannedEvent ? 1 : 0;
      run.finished_events += entry.event == kFinishedEvent ? 1 : 0;
    }
    run.records = RunFolder::open(path).records(journal);
    // Of a run that is going on, a case that has no record yet is no failure.
    if (run.up) std::erase_if(run.records, [](const Record& one) { return !finished(one); });
    run.done = std::ranges::count_if(run.records, finished);
    for (const Record& record : run.records) {
      if (!record.suite.empty()) run.suite = record.suite;
    }
    run.readable = true;
  } catch (const Error&) {
    run.readable = false;  // counted; its last good records stay
  }
  // What was there when the watch began is history, not something that happened meanwhile.
  if (!first_look_)
    finished_total_[run.suite] += std::max<int64_t>(0, run.finished_events - events_before);
}

std::vector<SuiteState> RunWatch::suites() const {
  std::map<std::string, SuiteState> newest;
  for (const auto& [name, run] : runs_) {
    SuiteState& state = newest[run.suite];
    if (state.up && !run.up) continue;
    state = {run.suite, run.up, age_seconds(run), run.planned, run.done, 0};
  }
  std::vector<SuiteState> all;
  for (auto& [suite, state] : newest) {
    const auto total = finished_total_.find(suite);
    if (total != finished_total_.end()) state.finished_total = total->second;
    all.push_back(state);
  }
  return all;
}

}  // namespace dettax
