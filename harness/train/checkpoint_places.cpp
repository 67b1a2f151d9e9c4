#include <algorithm>
#include <string_view>
#include <system_error>

#include "harness/base/error.h"
#include "harness/base/parse_number.h"
#include "harness/train/checkpoint.h"
#include "harness/train/checkpoint_manifest.h"
#include "harness/train/checkpoint_names.h"

namespace dettax {
namespace {

// Whatever is wrong with it, it is no place to go on from.
bool is_complete(const std::filesystem::path& path) {
  try {
    for (const SavedFile& file : read_manifest(path).files) {
      std::error_code error;
      const auto bytes = std::filesystem::file_size(path / saved_file_name(file.rank), error);
      if (error || static_cast<int64_t>(bytes) != file.bytes) return false;
    }
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace

std::optional<CheckpointName> parse_checkpoint_name(std::string_view name) {
  if (!name.starts_with(kCheckpointPrefix)) return std::nullopt;
  name.remove_prefix(kCheckpointPrefix.size());
  const size_t dot = name.find('.');
  CheckpointName parsed;
  if (!parse_number(name.substr(0, dot), parsed.step)) return std::nullopt;
  if (dot != std::string_view::npos && !parse_number(name.substr(dot + 1), parsed.attempt))
    return std::nullopt;
  return parsed;
}

std::vector<NamedCheckpoint> named_checkpoints(const std::filesystem::path& folder) {
  std::error_code ignored;
  return named_checkpoints(folder, ignored);
}

std::vector<NamedCheckpoint> named_checkpoints(const std::filesystem::path& folder,
                                               std::error_code& error) {
  std::vector<NamedCheckpoint> found;
  std::error_code neither;
  error.clear();
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto name = parse_checkpoint_name(entry->path().filename().string());
    if (name && entry->is_directory(neither)) found.push_back({*name, entry->path()});
  }
  if (error == std::errc::no_such_file_or_directory) error.clear();
  std::ranges::sort(found, [](const NamedCheckpoint& a, const NamedCheckpoint& b) {
    return std::pair(a.name.step, a.name.attempt) < std::pair(b.name.step, b.name.attempt);
  });
  return found;
}

std::vector<CheckpointPlace> list_checkpoints(const std::filesystem::path& folder) {
  std::vector<CheckpointPlace> places;
  for (const NamedCheckpoint& one : named_checkpoints(folder)) {
    if (is_complete(one.path)) places.push_back({one.path, one.name.step});
  }
  return places;
}

std::optional<CheckpointPlace> nearest_checkpoint(const std::filesystem::path& folder,
                                                  int64_t at_most_steps) {
  const std::vector<NamedCheckpoint> named = named_checkpoints(folder);
  for (auto one = named.rbegin(); one != named.rend(); ++one) {
    if (one->name.step <= at_most_steps && is_complete(one->path))
      return CheckpointPlace{one->path, one->name.step};
  }
  return std::nullopt;
}

}  // namespace dettax
