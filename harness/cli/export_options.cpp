#include "harness/cli/export_options.h"

#include <algorithm>
#include <filesystem>
#include <ostream>

#include <fmt/format.h>
#include <unistd.h>

#include "exporters/exporter.h"
#include "harness/base/error.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

constexpr const char* kStandardOutput = "-";

std::string flag_of(std::string_view format) { return "--" + std::string(format); }

template <class Action>
void for_each_file(const ExportOptions& options, Action action) {
  for (const Exporter& exporter : exporter_table()) {
    const auto given = options.files.find(std::string(exporter.format));
    if (given != options.files.end() && !given->second.empty()) action(exporter, given->second);
  }
}

// Also of files that do not exist yet.
bool same_file(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  if (a == kStandardOutput || b == kStandardOutput) return a == b;
  std::error_code neither;
  return std::filesystem::equivalent(a, b, neither) ||
         std::filesystem::weakly_canonical(std::filesystem::absolute(a), neither) ==
             std::filesystem::weakly_canonical(std::filesystem::absolute(b), neither);
}

}  // namespace

void declare_export_options(Options& options, ExportOptions& values) {
  for (const Exporter& exporter : exporter_table()) {
    options.text(flag_of(exporter.format), "FILE", values.files[std::string(exporter.format)],
                 "writes " + std::string(exporter.what));
  }
  options.flag("--strict", values.strict, "an inconclusive case is a failure in JUnit");
}

bool any_file(const ExportOptions& options) {
  bool any = false;
  for_each_file(options, [&](const Exporter&, const std::string&) { any = true; });
  return any;
}

void require_writable(const std::string& flag, const std::string& name) {
  const std::filesystem::path file = name;
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  std::error_code error;
  std::string what;
  if (name == kStandardOutput) return;
  if (std::filesystem::is_directory(file, error)) {
    what = "is a folder; a file is needed";
  } else if (!std::filesystem::is_directory(folder, error)) {
    what = "its folder does not exist";
  } else if (::access(std::filesystem::exists(file, error) ? file.c_str() : folder.c_str(), W_OK) !=
             0) {
    what = "cannot be written";
  }
  if (!what.empty()) throw Error(ErrorKind::usage, fmt::format("{} {}: {}", flag, name, what));
}

void require_writable(const ExportOptions& options) {
  for_each_file(options, [](const Exporter& exporter, const std::string& file) {
    require_writable(flag_of(exporter.format), file);
  });
}

std::vector<NamedFile> files_of(const ExportOptions& options) {
  std::vector<NamedFile> files;
  for_each_file(options, [&](const Exporter& exporter, const std::string& file) {
    files.push_back({flag_of(exporter.format), file});
  });
  return files;
}

bool lies_in(const std::string& path, const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code neither;
  const fs::path inside =
      fs::relative(fs::absolute(path, neither), fs::absolute(folder, neither), neither);
  return !inside.empty() && *inside.begin() != "..";
}

namespace {

// Whether that file is this input, or one of this folder's; many an input is a name as well.
bool is_or_lies_in(const std::string& file, const std::string& input) {
  namespace fs = std::filesystem;
  std::error_code neither;
  if (!fs::exists(file, neither)) return false;
  if (!fs::is_directory(input, neither)) return fs::equivalent(file, input, neither);
  return lies_in(file, input);
}

// Suites, modes and the like can be read by their names and as the base of others; no command writes one.
bool is_configuration(const std::string& file) {
  std::error_code neither;
  return (file.ends_with(".yaml") || file.ends_with(".yml")) &&
         std::filesystem::exists(file, neither);
}

}  // namespace

void require_other_files(const std::vector<NamedFile>& outputs,
                         const std::vector<NamedFile>& inputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const NamedFile& output = outputs[i];
    if (output.file.empty()) continue;
    for (const NamedFile& input : inputs) {
      if (output.file != kStandardOutput && is_or_lies_in(output.file, input.file))
        throw Error(ErrorKind::usage, fmt::format("{} {}: is what is read as {}; another file is "
                                                  "needed",
                                                  output.what, output.file, input.what));
    }
    if (is_configuration(output.file))
      throw Error(ErrorKind::usage, fmt::format("{} {}: is what is read as a configuration; "
                                                "another file is needed",
                                                output.what, output.file));
    for (size_t other = 0; other < i; ++other) {
      if (same_file(outputs[other].file, output.file))
        throw Error(
            ErrorKind::usage,
            fmt::format("{} {} and {} {}: would overwrite each other; give each a file of "
                        "its own",
                        outputs[other].what, outputs[other].file, output.what, output.file));
    }
  }
}

bool any_on_standard_output(const std::vector<NamedFile>& outputs) {
  return std::ranges::any_of(
      outputs, [](const NamedFile& output) { return output.file == kStandardOutput; });
}

void write_text(const std::string& file, const std::string& text, const Streams& streams) {
  if (file == kStandardOutput) {
    streams.out << text;
  } else {
    write_file_atomically(file, text);
  }
}

void write_exports(const ExportOptions& options, const std::vector<Record>& records,
                   const Streams& streams) {
  for_each_file(options, [&](const Exporter& exporter, const std::string& file) {
    write_export(std::string(exporter.format), file, options.strict, records, streams);
  });
}

void write_export(const std::string& format, const std::string& file, bool strict,
                  const std::vector<Record>& records, const Streams& streams,
                  const Outlook* outlook) {
  const Exporter& exporter = exporter_named(format);
  ExportSettings settings;
  settings.outlook = outlook;
  settings.strict = strict;
  settings.warn = [&](const std::string& warning) {
    streams.err << fmt::format("dettax: {}: {}\n", file, warning);
  };
  if (file == kStandardOutput) return exporter.write(streams.out, records, settings);
  std::error_code error;
  if (std::filesystem::is_regular_file(file, error) && std::filesystem::file_size(file) > 0)
    settings.previous = read_file(file);
  write_file_atomically(file, [&](std::ostream& out) { exporter.write(out, records, settings); });
}

}  // namespace dettax
