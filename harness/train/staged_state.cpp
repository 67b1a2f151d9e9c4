#include "harness/train/staged_state.h"

#include <cstring>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/train/safetensors.h"

namespace dettax {

std::vector<int64_t> held_shape(const StateRange& range) {
  int64_t rows = 0;
  for (const RowBlock& block : range.blocks) rows += block.count;
  if (range.count != rows * range.columns) return {range.count};
  if (range.whole_columns == 1) return {rows};
  return {rows, range.columns};
}

void StagedState::take(const StateTensor& tensor, const StateEntry& entry, Device& device) {
  Copy copy{entry, std::vector<char>(tensor.bytes())};
  if (tensor.on_device) {
    device.copy_to_host(copy.bytes.data(), tensor.data, copy.bytes.size());
  } else {
    std::memcpy(copy.bytes.data(), tensor.data, copy.bytes.size());
  }
  tensors_.push_back(std::move(copy));
}

// A tensor that training left alone may well be as it was before: then the live one is, too.
void StagedState::check(int64_t step, const SavedBefore& before) const {
  for (const Copy& copy : tensors_) {
    const StateEntry& entry = copy.entry;
    const Fingerprint found = fingerprint_part(entry.range, entry.type, copy.bytes.data());
    if (found == entry.fingerprint) continue;
    const auto old = before.fingerprints.find(entry.name);
    const std::string what =
        old != before.fingerprints.end() && old->second == found
            ? fmt::format("step {}'s {} hash equals step {}'s, the live one differs", step,
                          entry.name, before.step)
            : fmt::format("step {}'s {} hash is not that of the live one", step, entry.name);
    throw Error(ErrorKind::internal, what + ": not what was to be saved");
  }
}

SavedBefore StagedState::fingerprints(int64_t step) const {
  SavedBefore saved{step, {}};
  for (const Copy& copy : tensors_) saved.fingerprints[copy.entry.name] = copy.entry.fingerprint;
  return saved;
}

int64_t StagedState::write(const std::filesystem::path& path,
                           const std::map<std::string, std::string>& metadata) const {
  std::vector<SafeTensorData> data;
  for (const Copy& copy : tensors_)
    data.push_back(
        {copy.entry.name, copy.entry.type, held_shape(copy.entry.range), copy.bytes.data()});
  return write_safetensors(path, data, metadata);
}

}  // namespace dettax
