#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/base/fingerprint.h"
#include "harness/comm/mesh.h"
#include "harness/train/state.h"

namespace dettax {

// Ranks that hold the same elements with the same bits; the first has them in its file.
struct SavedPart {
  StateRange range;
  Fingerprint fingerprint;  // taken when the save was scheduled
  std::string value;        // of a single number, in words
  std::vector<int> holders;
};

struct SavedTensor {
  std::string item, name;  // of state.h
  StateType type = StateType::f32;
  std::vector<SavedPart> parts;

  // Copies of the same elements with other bits: of use only to the ranks that hold them.
  bool copies_differ() const;
  // Of the whole tensor, whatever the layout; means nothing where copies differ.
  Fingerprint fingerprint() const;
  const SavedPart* held_by(int rank) const;
};

struct SavedFile {
  int rank = 0;
  int64_t bytes = 0;
};

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr int64_t kManifestVersion = 1;

// What a checkpoint is, as manifest.json: JSON with a check over itself, so that no damage to it goes unseen.
struct CheckpointManifest {
  int64_t step = 0;                // steps done
  std::string case_id, layout;     // in words
  std::vector<MeshPosition> mesh;  // of each rank
  std::vector<SavedFile> files;    // of the ranks that have one
  std::vector<SavedTensor> tensors;

  int ranks() const { return static_cast<int>(mesh.size()); }
  const SavedTensor* find(const std::string& name) const;
};

// rank_00003.safetensors
std::string saved_file_name(int rank);

// The tables of all ranks as one, in the order in which names come up.
std::vector<SavedTensor> merge_states(const std::vector<std::vector<StateEntry>>& ranks);

// And back: what each rank held.
std::vector<std::vector<StateEntry>> states_of(const CheckpointManifest& manifest);

std::string to_json(const CheckpointManifest& manifest);
// Error{config} in one line that names the file.
CheckpointManifest read_manifest(const std::filesystem::path& checkpoint);

}  // namespace dettax
