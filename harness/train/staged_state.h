#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/device/device.h"
#include "harness/train/state.h"

namespace dettax {

// Fingerprints of this rank's parts in the checkpoint before.
struct SavedBefore {
  int64_t step = -1;
  std::map<std::string, Fingerprint> fingerprints;  // by name
};

// A copy of what a rank saves, in host memory, so that training can go on while it is written.
class StagedState {
 public:
  // The entry's fingerprint is that of the live tensor.
  void take(const StateTensor& tensor, const StateEntry& entry, Device& device);
  bool empty() const { return tensors_.empty(); }
  void clear() { tensors_.clear(); }

  // Error{internal} where a copy is not what was to be saved; says so where it is what was saved before.
  void check(int64_t step, const SavedBefore& before) const;
  // Of what was to be saved, for the next time.
  SavedBefore fingerprints(int64_t step) const;
  int64_t write(const std::filesystem::path& path,
                const std::map<std::string, std::string>& metadata) const;

 private:
  struct Copy {
    StateEntry entry;
    std::vector<char> bytes;
  };
  std::vector<Copy> tensors_;
};

// The shape under which other tools see a part: that of its rows where it has whole ones of them, else a row of elements.
std::vector<int64_t> held_shape(const StateRange& range);

}  // namespace dettax
