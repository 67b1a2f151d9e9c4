#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dettax {

inline constexpr const char* kJournalName = "journal.jsonl";  // in a run's folder

// Its events: of cases, and, of no case, how the run came about.
inline constexpr const char* kPlannedEvent = "planned";
inline constexpr const char* kStartedEvent = "started";
inline constexpr const char* kFinishedEvent = "finished";
inline constexpr const char* kInterruptedEvent = "interrupted";
inline constexpr const char* kNotSavedEvent = "not_saved";  // why checkpoints of it are missing
inline constexpr const char* kNoteEvent = "note";
inline constexpr const char* kNotIdleEvent = "not_idle";

// A line of a run's journal.
struct JournalEntry {
  std::string time;  // UTC, ISO 8601
  std::string event, case_id, detail;
};

std::string encode_journal_entry(const JournalEntry& entry);  // one line with its newline
// A torn last line (no newline: the machine went down while it was written) is left out; any other
// damage is Error{config} with the line's number.
std::vector<JournalEntry> parse_journal(const std::string& text, const std::string& name);
// That of a run; Error{config} too where it cannot be read.
std::vector<JournalEntry> read_journal(const std::filesystem::path& run_folder);
// Number of times a case was started.
int attempts(const std::vector<JournalEntry>& journal, const std::string& case_id);

std::string utc_now();  // ISO 8601: 2026-03-01T12:00:00Z

}  // namespace dettax
