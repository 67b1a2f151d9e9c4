#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "results/journal.h"
#include "results/record.h"

namespace dettax {

class FileHandle;

// Record as strict RFC 8259 JSON, keys as in results/record.schema.json; numbers by shortest
// round-trip; a number that does not exist is null beside a reason. Reading checks the schema
// version and every key, and throws Error{config} naming file and key.
std::string to_json(const Record& record);
Record parse_record(const std::string& json, const std::string& name);

// Writes to a temporary file beside `path`, syncs and renames, so that `path` is always whole: before, the old text, after, the new.
// What a writer that was killed has left behind is removed by the next. Error{infrastructure} when the disk does not take it.
void write_file_atomically(const std::filesystem::path& path, const std::string& text);
// The same of what `write` puts into the stream; nothing of it is held in memory.
void write_file_atomically(const std::filesystem::path& path,
                           const std::function<void(std::ostream&)>& write);
std::string read_file(const std::filesystem::path& path);  // Error{config} if it cannot be read

// Whether a record holds a result; else its case is to be run again.
bool finished(const Record& record);

inline constexpr const char* kRunLockName = "run.lock";  // in a run folder

// That this process, and no other, runs a run folder; held until it goes out of scope or the process
// ends, however it ends.
class RunLock {
 public:
  // Waits for a holder that is just ending; Error{config} that names it if it does not.
  RunLock(const std::filesystem::path& run_folder, double patience_seconds);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  std::unique_ptr<FileHandle> file_;
};

// results/runs/<run-id>/: suite.yaml (as run), journal.jsonl, <case-id>.json per finished case,
// ledgers.
class RunFolder {
 public:
  // Creates <parent>/<UTC time>-<suite>; a second in the same second gets a suffix.
  static RunFolder create(const std::filesystem::path& parent, const Suite& suite);
  // An existing one; Error{config} if it is no run folder.
  static RunFolder open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::string run_id() const { return path_.filename().string(); }
  std::string suite_yaml() const;

  // Appends a line to the journal, synced; `event` is one of journal.h's.
  void journal(const std::string& event, const std::string& case_id,
               const std::string& detail = "");

  void write_record(const Record& record);
  // One of every planned case, in the suite's order. A case without a record gets one that says
  // `incomplete` and why; a record file that does not parse is an error, not an absence.
  std::vector<Record> records() const { return records(read_journal(path_)); }
  // The same where the journal has been read already.
  std::vector<Record> records(const std::vector<JournalEntry>& entries) const;
  std::optional<Record> record(const std::string& case_id) const;

 private:
  Record incomplete(const std::string& case_id, const std::string& why) const;

  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

// Two runs of the same cases. Two-sided: a gain is flagged like a loss. ratio = new / base.
struct ComparisonRow {
  std::string case_id, arm, quantity;  // step_time_seconds | overhead_ratio | evidence
  std::optional<Estimate> base, fresh;
  double ratio = 1, low = 1, high = 1;
  // pass: no change beyond the intervals and the tolerance; fail: changed (either way), or void.
  Status status = Status::error;
  std::string words;
  // The new run's arm did not keep its bits, or two runs that should have equal ledgers do not:
  // exit code 5.
  bool violates_determinism = false;
};
struct Comparison {
  std::vector<ComparisonRow> rows;
  std::vector<std::string>
      provenance_differences;  // "cpu_model: A against B"; not empty: refused unless forced
  int exit_code = 70;
};
struct CompareSettings {
  double tolerance_ratio = 0.02;  // smaller changes are no change
  bool force = false;
};
Comparison compare_runs(const std::vector<Record>& base, const std::vector<Record>& fresh,
                        const CompareSettings& settings);

}  // namespace dettax
