#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/cli/command.h"
#include "harness/cli/options.h"
#include "results/record.h"

namespace dettax {

struct Outlook;

// Files in the formats of exporter_table(), one flag a format.
struct ExportOptions {
  std::map<std::string, std::string> files;  // format -> file, "" where it was not given
  bool strict = false;
};
void declare_export_options(Options& options, ExportOptions& values);
bool any_file(const ExportOptions& options);

// A file that can only be written after a run is checked before it: Error{usage}.
void require_writable(const ExportOptions& options);
void require_writable(const std::string& flag, const std::string& file);
// A file of the command line with the flag or word that stands for it.
struct NamedFile {
  std::string what, file;  // no file: it was not given
};
// The files that were asked for, by their flags.
std::vector<NamedFile> files_of(const ExportOptions& options);
// Whether a path is that folder or leads into it, links followed; neither has to exist.
bool lies_in(const std::string& path, const std::string& folder);
// What a command reads (a file, or a folder with all in it) must not be overwritten by what it found, nor one of its results by another,
// nor any configuration (a YAML file that exists): Error{usage} that names what is in the way. "-" is a file like others here.
void require_other_files(const std::vector<NamedFile>& outputs,
                         const std::vector<NamedFile>& inputs);
// Whether one of them is standard output, where it stands instead of the table.
bool any_on_standard_output(const std::vector<NamedFile>& outputs);

// Writes each file that was asked for; what was left out is said on streams.err.
void write_exports(const ExportOptions& options, const std::vector<Record>& records,
                   const Streams& streams);
// To a file, atomically; "-" is standard output.
void write_text(const std::string& file, const std::string& text, const Streams& streams);
// One format, likewise.
void write_export(const std::string& format, const std::string& file, bool strict,
                  const std::vector<Record>& records, const Streams& streams,
                  const Outlook* outlook = nullptr);

}  // namespace dettax
