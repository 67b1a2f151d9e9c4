#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/cli/command.h"
#include "harness/cli/run_options.h"
#include "results/run_folder.h"

namespace dettax {

// What the commands that measure a suite have in common.

// A run is resumed as it was: Error{usage} where --resume stands beside a suite or settings.
void check_resume(const RunOptions& options);

// The suite that the options name, or that of the run they resume. Error{usage} for a resumed run with other settings.
Suite suite_to_measure(const RunOptions& options);
// A new run folder of it, or the resumed one.
RunFolder folder_to_measure(const RunOptions& options, const Suite& suite);

struct MeasuredSuite {
  std::vector<Record> records;  // of an interrupted run those that were finished
  std::optional<int> signal;    // that interrupted it
};
// What is said of how a run came about, for those who judge it later; it stands in the journal.
struct RunNotes {
  std::vector<std::string> notes;
  std::string not_idle;  // that the machine did not settle, in words; empty if it did
};
// Measures what the folder has no record of, with progress on streams.err. `command` is what --resume is told of after an interruption.
MeasuredSuite measure_suite(const Suite& suite, RunFolder& folder, const RunOptions& options,
                            std::optional<double> budget_seconds, const std::string& command,
                            const Streams& streams, const RunNotes& notes = {});

}  // namespace dettax
