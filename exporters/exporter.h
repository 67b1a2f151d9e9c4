#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "results/record.h"

namespace dettax {

struct Outlook;

struct ExportSettings {
  bool strict = false;   // an inconclusive case is a failure to a consumer that knows no such thing
  std::string previous;  // what the file that is replaced held; empty if there is none
  const Outlook* outlook = nullptr;  // shown beside the records by HTML, Markdown and OpenMetrics
  std::function<void(const std::string&)> warn;  // what was left out, in a sentence; may be empty
};

// One format: a function of the records (and, for what must outlive a run, of the file before).
// Whatever the format, a case without a tax has no number that could be taken for one (tax_state.h).
struct Exporter {
  std::string_view format;  // also its flag: --junit FILE
  std::string_view what;    // one line for --help
  void (*write)(std::ostream& out, const std::vector<Record>& records,
                const ExportSettings& settings);
};
const std::vector<Exporter>& exporter_table();
// Error{usage} that lists the formats if there is no such one.
const Exporter& exporter_named(std::string_view format);

void write_json(std::ostream& out, const std::vector<Record>& records, const ExportSettings&);
void write_markdown(std::ostream& out, const std::vector<Record>& records, const ExportSettings&);
void write_csv(std::ostream& out, const std::vector<Record>& records, const ExportSettings&);
void write_junit(std::ostream& out, const std::vector<Record>& records, const ExportSettings&);
void write_google_benchmark(std::ostream& out, const std::vector<Record>& records,
                            const ExportSettings&);
void write_mllog(std::ostream& out, const std::vector<Record>& records, const ExportSettings&);
void write_openmetrics(std::ostream& out, const std::vector<Record>& records,
                       const ExportSettings&);
void write_html(std::ostream& out, const std::vector<Record>& records, const ExportSettings&);

}  // namespace dettax
