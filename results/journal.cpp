#include "results/journal.h"

#include <algorithm>
#include <ctime>

#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "results/run_folder.h"

namespace dettax {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::string text(64, '\0');
  text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts));
  return text;
}

std::string encode_journal_entry(const JournalEntry& entry) {
  nlohmann::ordered_json json = {
      {"time", entry.time}, {"event", entry.event}, {"case", entry.case_id}};
  if (!entry.detail.empty()) json["detail"] = entry.detail;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::vector<JournalEntry> parse_journal(const std::string& text, const std::string& name) {
  std::vector<JournalEntry> entries;
  size_t begin = 0;
  for (int line = 1; begin < text.size(); ++line) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    try {
      const auto json = nlohmann::json::parse(text.substr(begin, end - begin));
      entries.push_back(
          {json.at("time"), json.at("event"), json.at("case"), json.value("detail", "")});
    } catch (const nlohmann::json::exception&) {
      throw Error(ErrorKind::config,
                  name + ":" + std::to_string(line) +
                      ": is no journal entry; it must be a JSON object with time, event and case");
    }
    begin = end + 1;
  }
  return entries;
}

std::vector<JournalEntry> read_journal(const std::filesystem::path& run_folder) {
  const std::filesystem::path path = run_folder / kJournalName;
  return parse_journal(read_file(path), path.string());
}

int attempts(const std::vector<JournalEntry>& journal, const std::string& case_id) {
  return static_cast<int>(std::ranges::count_if(journal, [&](const JournalEntry& entry) {
    return entry.event == kStartedEvent && entry.case_id == case_id;
  }));
}

}  // namespace dettax
