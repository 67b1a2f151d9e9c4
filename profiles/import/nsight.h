#pragma once

#include <filesystem>
#include <vector>

#include "profiles/import/import_options.h"
#include "profiles/trace.h"

namespace dettax {

// Reads what `nsys export --type sqlite` makes of a report: one trace for each process that used the device, in order of (device,
// process). NVTX ranges are annotations; those named as steps (ImportOptions) mark them. Diagnostics that speak of lost or dropped
// records count as losses. A graph that was traced as a whole is one piece of work and leaves a note: what it holds cannot be told.
// Error{config} for a file without the tables of such an export.
std::vector<Trace> read_nsight(const std::filesystem::path& path,
                               const ImportOptions& options = {});

}  // namespace dettax
