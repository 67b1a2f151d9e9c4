// One file for tools that want all: the records as they lie in the run folder, and what they come to.
#include <ostream>

#include "exporters/exporter.h"
#include "harness/base/text.h"
#include "results/reason.h"
#include "results/run_folder.h"

namespace dettax {

void write_json(std::ostream& out, const std::vector<Record>& records, const ExportSettings&) {
  std::string run_id;
  append_json_string(run_id, records.empty() ? "" : records.front().run_id);
  out << "{\"schema_version\": " << kRecordSchemaVersion << ", \"run_id\": " << run_id
      << ", \"exit_code\": " << static_cast<int>(combined_exit_code(records)) << ", \"records\": [";
  const char* separator = "";
  for (const Record& record : records) {
    out << separator << to_json(record);
    separator = ",\n";
  }
  out << "]}\n";
}

}  // namespace dettax
