#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dettax {

// A line of a run's journal.
struct JournalEntry {
  std::string time;  // UTC, ISO 8601
  std::string event, case_id, detail;
};

std::string encode_journal_entry(const JournalEntry& entry);  // one line with its newline
// A torn last line (no newline: the machine went down while it was written) is left out; any other
// damage is Error{config} with the line's number.
std::vector<JournalEntry> parse_journal(const std::string& text, const std::string& name);

std::string utc_now();  // ISO 8601: 2026-03-01T12:00:00Z

}  // namespace dettax
