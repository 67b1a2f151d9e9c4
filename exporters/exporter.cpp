#include "exporters/exporter.h"

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace dettax {

const std::vector<Exporter>& exporter_table() {
  static const std::vector<Exporter> kTable = {
      {"json", "all records in one JSON file", write_json},
      {"markdown", "a summary for pull requests and wikis", write_markdown},
      {"csv", "a row an arm, for spreadsheets and data frames", write_csv},
      {"junit", "JUnit XML, a test a case, for CI", write_junit},
      {"google-benchmark", "Google Benchmark JSON, for compare.py", write_google_benchmark},
      {"mllog", "MLPerf log lines", write_mllog},
      {"openmetrics", "metrics for node_exporter's textfile collector", write_openmetrics},
      {"html", "a report with charts, one file that opens offline", write_html},
  };
  return kTable;
}

const Exporter& exporter_named(std::string_view format) {
  std::vector<std::string> known;
  for (const Exporter& exporter : exporter_table()) {
    if (exporter.format == format) return exporter;
    known.emplace_back(exporter.format);
  }
  throw Error(ErrorKind::usage,
              fmt::format("there is no format \"{}\"{}", format, did_you_mean(format, known)));
}

}  // namespace dettax
