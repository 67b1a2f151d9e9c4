#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/comm/communicator.h"
#include "harness/train/staged_state.h"
#include "harness/train/train_step.h"

namespace dettax {

// Checkpoints of a run lie in one folder, which is that run's alone: step_00000050/ with manifest.json (checkpoint_manifest.h) and one
// safetensors file a rank. A step that is saved again gets a name of its own, step_00000050.1: nothing is removed before something newer
// is complete. What is being written has another name until it is on the disk; a reader never sees half of one.

// A complete one: it is named so, and its manifest and files are there, unharmed as far as their sizes and the manifest's own check say.
struct CheckpointPlace {
  std::filesystem::path path;
  int64_t step = 0;  // steps done
};
// Ascending by step, the same step's in the order they were saved. Empty where there is no such folder.
std::vector<CheckpointPlace> list_checkpoints(const std::filesystem::path& folder);
// The last one of at most this many steps.
std::optional<CheckpointPlace> nearest_checkpoint(
    const std::filesystem::path& folder,
    int64_t at_most_steps = std::numeric_limits<int64_t>::max());

struct SaveSettings {
  std::filesystem::path folder;  // made if it is missing
  int keep = 2;  // complete checkpoints; older ones go once a newer one is complete. 0: all
};

// Saves while training goes on. Every call is made by all ranks at once, between steps, with the communicator of the training step, which
// must outlive this. What keeps one rank from saving becomes the same Error{infrastructure} on all of them, which leaves earlier
// checkpoints and the training as they are.
class CheckpointSaver {
 public:
  CheckpointSaver(SaveSettings settings, Communicator& ranks);
  ~CheckpointSaver();  // what was not finished is no checkpoint
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Takes fingerprints and a copy of the state as it is now, and goes on writing in a thread of its own. The one before is finished
  // first.
  void schedule(TrainStep& train);
  // Waits until it is written and makes it a checkpoint; nothing where there is none under way. Its path on every rank, else empty.
  std::filesystem::path finish();

 private:
  struct Pending;
  void begin_folder(int64_t step);
  void commit(Pending& done, const std::vector<std::string>& sizes) const;

  const SaveSettings settings_;
  Communicator& ranks_;
  SavedBefore before_;
  std::unique_ptr<Pending> pending_;
};

// Reads all of it and holds every part against its fingerprint, as loading does, with no training step. Error{config} names file and tensor.
void verify_checkpoint(const std::filesystem::path& checkpoint);

// A seed that no run has: loading begins with a reset by it, so that what is left out is not right by chance.
inline constexpr uint64_t kNoSeed = ~uint64_t{0};

struct LoadSettings {
  std::set<std::string>
      leave_out;  // items (state.h) that stay as a reset leaves them: to show that their loss is seen
};

// Puts a training step into the state that was saved, on all ranks at once, also on another layout of the same model; steps_done() then
// says how many steps that were. Every part that is read is held against the fingerprint taken when it was saved, and so is the whole
// that came of it. On another layout copies of a tensor that had come to differ are refused.
// Error{config} names file and tensor, and is not raised on every rank; the training step is then in no state and can only be reset or loaded again.
void load_checkpoint(const std::filesystem::path& checkpoint, TrainStep& train,
                     const LoadSettings& settings = {});

}  // namespace dettax
