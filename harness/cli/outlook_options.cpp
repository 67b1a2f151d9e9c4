#include "harness/cli/outlook_options.h"

namespace dettax {

std::vector<NamedFile> OutlookFiles::named() const {
  return {
      {"--json", json}, {"--html", html}, {"--markdown", markdown}, {"--openmetrics", openmetrics}};
}

void declare_outlook_files(Options& options, OutlookFiles& files) {
  options.text("--json", "FILE", files.json, "the result as JSON");
  options.text("--html", "FILE", files.html, "a page with charts that opens offline");
  options.text("--markdown", "FILE", files.markdown, "a summary for pull requests and wikis");
  options.text("--openmetrics", "FILE", files.openmetrics,
               "metrics for node_exporter's textfile collector");
}

bool checked_on_standard_output(const OutlookFiles& files, const std::vector<NamedFile>& inputs) {
  const std::vector<NamedFile> named = files.named();
  for (const NamedFile& one : named) {
    if (!one.file.empty()) require_writable(one.what, one.file);
  }
  require_other_files(named, inputs);
  return any_on_standard_output(named);
}

void write_outlook_files(const OutlookFiles& files, const std::vector<Record>& records,
                         const Outlook& outlook, const std::string& json, const Streams& streams) {
  const auto one = [&](const char* format, const std::string& file,
                       const std::vector<Record>& shown) {
    if (!file.empty()) write_export(format, file, false, shown, streams, &outlook);
  };
  one("html", files.html, records);
  one("markdown", files.markdown, records);
  one("openmetrics", files.openmetrics, {});
  if (!files.json.empty()) write_text(files.json, json, streams);
}

}  // namespace dettax
