#include <istream>
#include <ostream>

#include <nlohmann/json.hpp>

#include "harness/evidence/ledger.h"

namespace dettax {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLedgerVersion = 1;

class LineReader {
 public:
  LineReader(std::istream& in, const std::string& name) : in_(in), name_(name) {}

  Json next() {
    std::string text;
    ++line_;
    if (!std::getline(in_, text)) fail("the file ends here; it was cut off");
    if (in_.eof()) fail("the line has no end; the file was cut off");
    try {
      return Json::parse(text);
    } catch (const nlohmann::json::exception&) {
      fail("is no JSON; was the file damaged or edited?");
    }
  }
  // What `take` reads from the line's JSON, with the line's number in its complaints.
  template <class Take>
  auto next_as(Take take) {
    const Json json = next();
    try {
      return take(json);
    } catch (const nlohmann::json::exception&) {
      fail("is no entry of a ledger: a key is missing or has a value of another kind");
    } catch (const Error& error) {
      fail(error.what());
    }
  }
  void expect_end() {
    ++line_;
    if (in_.peek() != std::istream::traits_type::eof())
      fail("there is more than the head line says");
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::config, name_ + ":" + std::to_string(line_) + ": " + what);
  }

 private:
  std::istream& in_;
  const std::string& name_;
  int64_t line_ = 0;
};

Ledger read_head(const Json& json, std::vector<int64_t>& entries_of_rank) {
  if (json.at("ledger_version") != kLedgerVersion)
    throw Error(ErrorKind::config, "ledger_version is " + json.at("ledger_version").dump() +
                                       "; this program reads " + std::to_string(kLedgerVersion));
  Ledger ledger;
  ledger.case_id = json.at("case_id");
  ledger.mode = json.at("mode");
  ledger.mode_hash = json.at("mode_hash");
  ledger.seed = json.at("seed");
  ledger.steps = json.at("steps");
  ledger.threads_per_rank = json.at("threads_per_rank");
  ledger.data_parallel = json.at("data_parallel");
  ledger.micro_batch = json.at("micro_batch");
  entries_of_rank = json.at("entries").get<std::vector<int64_t>>();
  return ledger;
}

LedgerEntry read_entry(const Json& json) {
  return {json.at("step").get<int64_t>(), json.at("path").get<std::string>(),
          json.at("tensor").get<std::string>(),
          parse_fingerprint(json.at("value").get<std::string>())};
}

}  // namespace

void write_ledger(std::ostream& out, const Ledger& ledger) {
  std::vector<size_t> counts;
  for (const auto& entries : ledger.ranks) counts.push_back(entries.size());
  const Json head = {{"ledger_version", kLedgerVersion},
                     {"case_id", ledger.case_id},
                     {"mode", ledger.mode},
                     {"mode_hash", ledger.mode_hash},
                     {"seed", ledger.seed},
                     {"steps", ledger.steps},
                     {"threads_per_rank", ledger.threads_per_rank},
                     {"data_parallel", ledger.data_parallel},
                     {"micro_batch", ledger.micro_batch},
                     {"entries", counts}};
  out << head.dump() << "\n";
  for (size_t rank = 0; rank < ledger.ranks.size(); ++rank) {
    for (const LedgerEntry& entry : ledger.ranks[rank]) {
      const Json line = {{"rank", rank},
                         {"step", entry.step},
                         {"path", entry.path},
                         {"tensor", entry.tensor},
                         {"value", to_string(entry.value)}};
      out << line.dump() << "\n";
    }
  }
}

Ledger read_ledger(std::istream& in, const std::string& name) {
  LineReader lines(in, name);
  std::vector<int64_t> counts;
  Ledger ledger = lines.next_as([&](const Json& json) { return read_head(json, counts); });
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    std::vector<LedgerEntry>& entries = ledger.ranks.emplace_back();
    for (int64_t i = 0; i < counts[rank]; ++i) {
      entries.push_back(lines.next_as([&](const Json& json) {
        if (json.at("rank") != rank)
          throw Error(ErrorKind::config, "belongs to rank " + json.at("rank").dump() + ", not " +
                                             std::to_string(rank));
        return read_entry(json);
      }));
    }
  }
  lines.expect_end();
  return ledger;
}

}  // namespace dettax
