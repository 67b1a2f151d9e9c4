#include "results/run_folder.h"

#include <algorithm>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/file_handle.h"
#include "results/reason.h"

namespace dettax {
namespace {

constexpr const char* kSuite = "suite.yaml";
constexpr const char* kIncomplete = "incomplete";

std::string compact(std::string time) {
  std::erase_if(time, [](char c) { return c == '-' || c == ':'; });
  return time;
}

std::string case_file(const std::string& case_id) {
  if (case_id.empty() || case_id.front() == '.' || case_id.find('/') != std::string::npos)
    throw Error(ErrorKind::internal, "the case id '" + case_id + "' is not fit for a file name");
  return case_id + ".json";
}

std::filesystem::path create_folder(const std::filesystem::path& parent, const std::string& name) {
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  for (int attempt = 1; !error && attempt < 1000; ++attempt) {
    const std::filesystem::path path =
        parent / (attempt == 1 ? name : name + "-" + std::to_string(attempt));
    if (std::filesystem::create_directory(path, error)) return path;
  }
  throw Error(ErrorKind::infrastructure, parent.string() + ": no run folder can be made in it" +
                                             (error ? ": " + error.message() : ""));
}

// What the journal last says of a case that has no record.
std::string why_no_record(const std::vector<JournalEntry>& entries, const std::string& case_id) {
  std::string last;
  for (const JournalEntry& entry : entries) {
    if (entry.case_id == case_id) last = entry.event;
  }
  if (last == kFinishedEvent)
    return "The journal says that it was finished, but its record is no longer in the run folder.";
  if (last == kStartedEvent) return "It has no record: it is still running or was killed.";
  if (last == kInterruptedEvent) return "It was interrupted; --resume runs it.";
  return "It was not started; --resume runs it.";
}

// A line that was cut off by a crash must not swallow the next one.
void end_torn_line(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return;
  const std::string text = read_file(path);
  if (text.empty() || text.back() == '\n') return;
  const size_t last = text.rfind('\n');
  std::filesystem::resize_file(path, last == std::string::npos ? 0 : last + 1, error);
  if (error)
    throw Error(ErrorKind::infrastructure,
                path.string() + ": a torn last line cannot be cut off: " + error.message());
}

}  // namespace

bool finished(const Record& record) { return record.verdict.reason_code != kIncomplete; }

RunFolder RunFolder::create(const std::filesystem::path& parent, const Suite& suite) {
  RunFolder folder(create_folder(parent, compact(utc_now()) + "-" + suite.name));
  write_file_atomically(folder.path_ / kSuite, dump_suite(suite));
  for (const Case& planned : suite.cases) folder.journal(kPlannedEvent, planned.id());
  return folder;
}

RunFolder RunFolder::open(const std::filesystem::path& path) {
  for (const char* file : {kSuite, kJournalName}) {
    if (!std::filesystem::is_regular_file(path / file))
      throw Error(ErrorKind::config, path.string() + ": is no run folder: it has no " + file);
  }
  // Without a slash at the end, else the run would have no name.
  const std::filesystem::path whole = std::filesystem::absolute(path).lexically_normal();
  return RunFolder(whole.has_filename() ? whole : whole.parent_path());
}

std::string RunFolder::suite_yaml() const { return read_file(path_ / kSuite); }

void RunFolder::journal(const std::string& event, const std::string& case_id,
                        const std::string& detail) {
  end_torn_line(path_ / kJournalName);
  FileHandle file(path_ / kJournalName, O_WRONLY | O_CREAT | O_APPEND);
  file.write(encode_journal_entry({utc_now(), event, case_id, detail}));
  file.sync();
  file.close();
}

void RunFolder::write_record(const Record& record) {
  write_file_atomically(path_ / case_file(record.case_id), to_json(record));
}

std::vector<Record> RunFolder::records(const std::vector<JournalEntry>& entries) const {
  std::vector<Record> found;
  for (const JournalEntry& entry : entries) {
    if (entry.event != kPlannedEvent) continue;
    std::optional<Record> one = record(entry.case_id);
    found.push_back(one ? std::move(*one)
                        : incomplete(entry.case_id, why_no_record(entries, entry.case_id)));
  }
  // One folder is of one host: nodes of an array that start in the same second have runs of one name.
  const auto known =
      std::ranges::find_if(found, [](const Record& one) { return !one.environment.host.empty(); });
  if (known == found.end()) return found;
  for (Record& one : found) {
    if (one.environment.host.empty()) one.environment.host = known->environment.host;
  }
  return found;
}

Record RunFolder::incomplete(const std::string& case_id, const std::string& why) const {
  Record record;
  record.run_id = run_id();
  record.case_id = case_id;
  record.verdict = make_verdict(kIncomplete, why);
  return record;
}

std::optional<Record> RunFolder::record(const std::string& case_id) const {
  const std::filesystem::path path = path_ / case_file(case_id);
  if (!std::filesystem::exists(path)) return std::nullopt;
  try {
    Record found = parse_record(read_file(path), path.string());
    if (found.case_id == case_id) return found;
    throw Error(ErrorKind::config,
                path.string() + ": case_id: is that of another case, " + found.case_id);
  } catch (const Error& error) {
    throw Error(error.kind(),
                std::string(error.what()) + "; without this file, --resume runs the case again");
  }
}

}  // namespace dettax
