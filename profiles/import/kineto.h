#pragma once

#include <filesystem>

#include "profiles/import/import_options.h"
#include "profiles/trace.h"

namespace dettax {

// Reads a trace of PyTorch's profiler (Kineto) or any other in that dialect of Chrome's JSON, plain or packed by gzip, with a window of
// about a megabyte on the text: memory goes to the spans kept, 56 bytes each, and not to the file.
//
// A file that is not valid JSON, or ends early, is an Error{config} that names the file, the byte and the event; with
// options.salvage the other events are taken, and Trace::losses counts each stretch that could not be read as one event. Bytes that
// are not UTF-8 harm nothing: they become U+FFFD. Frames of Python, flow arrows and device-side copies of annotations are skipped.
// Work and calls have their paths assigned (keys.h).
Trace read_kineto(const std::filesystem::path& path, const ImportOptions& options = {});

}  // namespace dettax
