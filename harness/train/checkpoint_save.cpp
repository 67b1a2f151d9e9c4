#include <algorithm>
#include <exception>
#include <map>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/file_handle.h"
#include "harness/train/checkpoint.h"
#include "harness/train/checkpoint_manifest.h"
#include "harness/train/checkpoint_names.h"
#include "harness/train/rank_states.h"
#include "harness/train/safetensors.h"
#include "harness/train/staged_state.h"

namespace dettax {
namespace {

namespace fs = std::filesystem;

void sync_folder(const fs::path& folder) { FileHandle(folder, O_RDONLY | O_DIRECTORY).sync(); }

// What went wrong in `work` as text, so that every rank can hear of it; empty where nothing did.
template <typename Work>
std::string failure_of(const Work& work) {
  try {
    work();
  } catch (const fs::filesystem_error& error) {
    return fmt::format("{}: cannot be used: {}", error.path1().string(), error.code().message());
  } catch (const std::exception& error) {
    return *error.what() == '\0' ? "unknown" : error.what();
  }
  return "";
}

// Collective. Throws on every rank what failed on one, and `what` comes of it.
void require_all(Communicator& ranks, const std::string& what, const std::string& own_failure) {
  const std::vector<std::string> failures = gather_texts(ranks, own_failure);
  const auto failed =
      std::ranges::find_if(failures, [](const std::string& f) { return !f.empty(); });
  if (failed == failures.end()) return;
  throw Error(ErrorKind::infrastructure,
              fmt::format("{}: rank {}: {}", what, failed - failures.begin(), *failed));
}
void require_all(Communicator& ranks, int64_t step, const std::string& own_failure) {
  require_all(ranks, fmt::format("checkpoint of step {} is not saved", step), own_failure);
}

// Out of sight at once, so that what is left of it when this process ends is no checkpoint.
void remove_checkpoint(const fs::path& path) {
  const fs::path hidden =
      path.parent_path() / (std::string(kRemovedPrefix) + path.filename().string());
  std::error_code error;
  fs::remove_all(hidden, error);
  fs::rename(path, hidden, error);
  if (!error) fs::remove_all(hidden, error);
}

// What a process that was killed has left behind. The folder is one run's alone.
void remove_leftovers(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> left;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(kPartialPrefix) || name.starts_with(kRemovedPrefix))
      left.push_back(entry->path());
  }
  for (const fs::path& one : left) fs::remove_all(one, error);
}

// Of a step that has been saved before, complete or not, the next.
std::string fresh_name(const fs::path& folder, int64_t step) {
  int attempt = 0;
  for (const NamedCheckpoint& one : named_checkpoints(folder)) {
    if (one.name.step == step) attempt = std::max(attempt, one.name.attempt + 1);
  }
  const std::string name = fmt::format("{}{:08}", kCheckpointPrefix, step);
  return attempt == 0 ? name : fmt::format("{}.{}", name, attempt);
}

void prune(const fs::path& folder, int keep) {
  if (keep <= 0) return;
  std::vector<CheckpointPlace> complete = list_checkpoints(folder);
  const auto kept = static_cast<size_t>(keep);
  for (size_t i = 0; i + kept < complete.size(); ++i) remove_checkpoint(complete[i].path);
}

}  // namespace

struct CheckpointSaver::Pending {
  CheckpointManifest manifest;
  fs::path partial, complete;
  StagedState staged;
  SavedBefore before, saved;
  std::string failure;
  int64_t bytes = 0;
  std::jthread writer;  // last: it uses all of the above

  void write(int rank);
};

void CheckpointSaver::Pending::write(int rank) {
  failure = failure_of([&] {
    if (staged.empty()) return;
    staged.check(manifest.step, before);
    saved = staged.fingerprints(manifest.step);
    bytes = staged.write(partial / saved_file_name(rank), {{"format", "dettax"},
                                                           {"step", std::to_string(manifest.step)},
                                                           {"rank", std::to_string(rank)}});
    staged.clear();
  });
}

CheckpointSaver::CheckpointSaver(SaveSettings settings, Communicator& ranks)
    : settings_(std::move(settings)), ranks_(ranks) {
  require_all(ranks_, "no checkpoints are saved", failure_of([&] {
                if (ranks_.rank() != 0) return;
                fs::create_directories(settings_.folder);
                remove_leftovers(settings_.folder);
              }));
}

CheckpointSaver::~CheckpointSaver() {
  if (!pending_) return;
  pending_->writer.join();
  std::error_code ignored;
  if (ranks_.rank() == 0) fs::remove_all(pending_->partial, ignored);
}

// Rank 0 says what it is called.
void CheckpointSaver::begin_folder(int64_t step) {
  std::string name;
  require_all(ranks_, step, failure_of([&] {
                if (ranks_.rank() != 0) return;
                name = fresh_name(settings_.folder, step);
                const fs::path partial = settings_.folder / (std::string(kPartialPrefix) + name);
                fs::remove_all(partial);
                fs::create_directory(partial);
              }));
  name = gather_texts(ranks_, name).front();
  pending_->complete = settings_.folder / name;
  pending_->partial = settings_.folder / (std::string(kPartialPrefix) + name);
}

void CheckpointSaver::schedule(TrainStep& train) {
  finish();
  const int64_t step = train.steps_done();
  const int rank = ranks_.rank();
  const std::vector<StateTensor> state = train.state();
  const std::vector<StateEntry> own = describe_state(train);

  pending_ = std::make_unique<Pending>();
  pending_->before = before_;
  std::error_code ignored;
  try {
    CheckpointManifest& manifest = pending_->manifest;
    manifest.step = step;
    manifest.case_id = train.planned().id();
    manifest.layout = to_string(train.planned().layout);
    for (int r = 0; r < ranks_.size(); ++r)
      manifest.mesh.push_back(position_of(train.planned().layout, r));
    manifest.tensors = merge_states(gather_states(ranks_, own));
    begin_folder(step);
    require_all(ranks_, step, failure_of([&] {
                  for (size_t i = 0; i < state.size(); ++i) {
                    const SavedPart* part = manifest.find(own[i].name)->held_by(rank);
                    if (part->holders.front() == rank && part->range.count > 0)
                      pending_->staged.take(state[i], own[i], train.device());
                  }
                }));
  } catch (...) {
    if (rank == 0 && !pending_->partial.empty()) fs::remove_all(pending_->partial, ignored);
    pending_.reset();
    throw;
  }
  pending_->writer = std::jthread([pending = pending_.get(), rank] { pending->write(rank); });
}

// On rank 0, once every rank's file is on the disk.
void CheckpointSaver::commit(Pending& done, const std::vector<std::string>& sizes) const {
  for (size_t r = 0; r < sizes.size(); ++r) {
    if (sizes[r] != "0") done.manifest.files.push_back({static_cast<int>(r), std::stoll(sizes[r])});
  }
  FileHandle file(done.partial / kManifestName, O_WRONLY | O_CREAT | O_EXCL);
  file.write(to_json(done.manifest));
  file.sync();
  file.close();
  sync_folder(done.partial);
  fs::rename(done.partial, done.complete);
  sync_folder(settings_.folder);
  prune(settings_.folder, settings_.keep);
}

std::filesystem::path CheckpointSaver::finish() {
  if (!pending_) return {};
  const std::unique_ptr<Pending> done = std::exchange(pending_, nullptr);
  done->writer.join();
  const int64_t step = done->manifest.step;
  try {
    require_all(ranks_, step, done->failure);
    const std::vector<std::string> sizes = gather_texts(ranks_, std::to_string(done->bytes));
    require_all(ranks_, step, failure_of([&] {
                  if (ranks_.rank() == 0) commit(*done, sizes);
                }));
  } catch (...) {
    std::error_code ignored;
    if (ranks_.rank() == 0) fs::remove_all(done->partial, ignored);
    throw;
  }
  before_ = std::move(done->saved);
  return done->complete;
}

}  // namespace dettax
