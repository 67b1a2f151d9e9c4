#include "harness/launch/trace_files.h"

#include "results/run_folder.h"

namespace dettax {

void write_traces(const std::vector<std::string>& traces, const std::filesystem::path& folder) {
  for (size_t rank = 0; rank < traces.size(); ++rank)
    write_file_atomically(folder / ("rank" + std::to_string(rank) + ".json"), traces[rank]);
}

}  // namespace dettax
