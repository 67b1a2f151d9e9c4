#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dettax {

// Traces of all ranks as files rank0.json, rank1.json, ... of a folder, which is how the importer wants them.
void write_traces(const std::vector<std::string>& traces, const std::filesystem::path& folder);

}  // namespace dettax
