#pragma once

#include <filesystem>
#include <vector>

#include "profiles/import/import_options.h"
#include "profiles/trace.h"

namespace dettax {

// The traces of one arm: a file, or a folder with one file a rank, in order of rank. Kineto's JSON (plain or gzip), SQLite exports of
// Nsight Systems and our own capture files are told apart by what they hold. A rank that the trace does not tell is taken from the file's name ("rank3"); several
// traces of which one has no rank, or two the same, are an Error{usage}.
std::vector<Trace> read_traces(const std::filesystem::path& path,
                               const ImportOptions& options = {});

}  // namespace dettax
