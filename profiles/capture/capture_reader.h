#pragma once

#include <filesystem>

#include "profiles/capture/capture.h"
#include "profiles/import/import_options.h"
#include "profiles/trace.h"

namespace dettax {

// The capture in a file. A file that ends within a chunk, or without its end, is of a process that was killed: all whole chunks are
// there, and Capture::unfinished says so. Any other fault is damage: Error{config} with the byte, or, with ImportOptions::salvage, the
// chunk is left out and counted as a loss.
Capture read_capture(const std::filesystem::path& file, const ImportOptions& options = {});

// As a Trace.
Trace read_capture_trace(const std::filesystem::path& file, const ImportOptions& options = {});

}  // namespace dettax
