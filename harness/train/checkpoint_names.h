#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

namespace dettax {

// step_00000050, and step_00000050.1 for the same step saved again. What is being written or removed has another beginning.
inline constexpr std::string_view kCheckpointPrefix = "step_";
inline constexpr std::string_view kPartialPrefix = ".partial-";
inline constexpr std::string_view kRemovedPrefix = ".removed-";

struct CheckpointName {
  int64_t step = 0;
  int attempt = 0;
};
std::optional<CheckpointName> parse_checkpoint_name(std::string_view name);

// Folders that are named so, complete or not, by step, then by attempt.
struct NamedCheckpoint {
  CheckpointName name;
  std::filesystem::path path;
};
std::vector<NamedCheckpoint> named_checkpoints(const std::filesystem::path& folder);
// Likewise; `error` is why not all of the folder was seen. A folder that is not there has none, and is no error.
std::vector<NamedCheckpoint> named_checkpoints(const std::filesystem::path& folder,
                                               std::error_code& error);

}  // namespace dettax
