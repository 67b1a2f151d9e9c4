#pragma once

#include <string>
#include <vector>

#include "exporters/outlook.h"
#include "harness/cli/command.h"
#include "harness/cli/export_options.h"
#include "results/record.h"

namespace dettax {

// Files of the formats that show an outlook, beside the command's own JSON.
struct OutlookFiles {
  std::string html, markdown, openmetrics, json;
  std::vector<NamedFile> named() const;
};
void declare_outlook_files(Options& options, OutlookFiles& files);
// Whether one of them stands instead of what is printed. Error{usage} for a file that cannot be written, or that is given twice.
bool checked_on_standard_output(const OutlookFiles& files, const std::vector<NamedFile>& inputs);
// Beside the records in HTML and Markdown, alone in metrics: those of a run come from its own export.
void write_outlook_files(const OutlookFiles& files, const std::vector<Record>& records,
                         const Outlook& outlook, const std::string& json, const Streams& streams);

}  // namespace dettax
