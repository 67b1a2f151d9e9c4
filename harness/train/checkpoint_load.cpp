#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/train/checkpoint.h"
#include "harness/train/checkpoint_manifest.h"
#include "harness/train/rank_states.h"
#include "harness/train/safetensors.h"

namespace dettax {
namespace {

// Where elements that are neighbours in a whole tensor lie in a part of it.
struct Piece {
  int64_t whole_index = 0, count = 0, at = 0;
  int64_t end() const { return whole_index + count; }
};

std::vector<Piece> pieces_of(const StateRange& range) {
  std::vector<Piece> pieces;
  int64_t at = 0;
  for (const Run& run : runs_of(range)) {
    pieces.push_back({run.whole_index, run.count, at});
    at += run.count;
  }
  std::ranges::sort(pieces, {}, &Piece::whole_index);
  return pieces;
}

// Calls copy(from, to, count) for what both have; how many elements that were.
template <typename Copy>
int64_t for_each_common(const std::vector<Piece>& from, const std::vector<Piece>& to,
                        const Copy& copy) {
  int64_t common = 0;
  for (size_t f = 0, t = 0; f < from.size() && t < to.size();) {
    const int64_t begin = std::max(from[f].whole_index, to[t].whole_index);
    const int64_t end = std::min(from[f].end(), to[t].end());
    if (begin < end) {
      copy(from[f].at + begin - from[f].whole_index, to[t].at + begin - to[t].whole_index,
           end - begin);
      common += end - begin;
    }
    from[f].end() < to[t].end() ? ++f : ++t;
  }
  return common;
}

// Reads parts from the files of a checkpoint, each held against its fingerprint.
class PartReader {
 public:
  explicit PartReader(const std::filesystem::path& checkpoint) : checkpoint_(checkpoint) {}

  std::vector<char> read(const SavedTensor& tensor, const SavedPart& part) {
    const int rank = part.holders.front();
    const std::filesystem::path path = checkpoint_ / saved_file_name(rank);
    auto file = files_.find(rank);
    if (file == files_.end()) file = files_.emplace(rank, SafeTensorFile(path)).first;
    const SafeTensor& found = file->second.tensor(tensor.name);
    const auto refuse = [&](const std::string& why) {
      throw Error(ErrorKind::config,
                  fmt::format("{}: tensor {}: {}", path.string(), tensor.name, why));
    };
    if (found.type != tensor.type || found.shape != held_shape(part.range))
      refuse("has another type or shape than the manifest says");
    std::vector<char> bytes = file->second.read(found);
    if (fingerprint_part(part.range, tensor.type, bytes.data()) != part.fingerprint)
      refuse("is damaged: its fingerprint is not the one taken when it was saved");
    return bytes;
  }

 private:
  const std::filesystem::path checkpoint_;
  std::map<int, SafeTensorFile> files_;
};

class Loader {
 public:
  Loader(const std::filesystem::path& checkpoint, TrainStep& train)
      : name_(checkpoint.string()),
        manifest_(read_manifest(checkpoint)),
        reader_(checkpoint),
        train_(train),
        rank_(train.mesh().world().rank()),
        same_layout_(manifest_.layout == to_string(train.planned().layout) &&
                     manifest_.ranks() == train.mesh().world().size()) {}

  void load(const std::set<std::string>& leave_out);

 private:
  const SavedTensor& saved(const StateTensor& tensor) const;
  void fill(const StateTensor& tensor);
  std::vector<char> gather(const SavedTensor& from, const StateTensor& to);
  void require_whole(const std::set<std::string>& leave_out) const;
  [[noreturn]] void refuse(const std::string& tensor, const std::string& why) const {
    throw Error(ErrorKind::config, fmt::format("{}: {}: {}", name_, tensor, why));
  }

  const std::string name_;
  const CheckpointManifest manifest_;
  PartReader reader_;
  TrainStep& train_;
  const int rank_;
  const bool same_layout_;
};

const SavedTensor& Loader::saved(const StateTensor& tensor) const {
  const SavedTensor* found = manifest_.find(tensor.name);
  if (found == nullptr)
    refuse(tensor.name, fmt::format("is not in it; it was saved by case {}", manifest_.case_id));
  if (found->type != tensor.type) refuse(tensor.name, "was saved in another type");
  const StateRange& range = found->parts.front().range;
  if (range.whole_rows != tensor.range.whole_rows ||
      range.whole_columns != tensor.range.whole_columns)
    refuse(tensor.name,
           fmt::format("shape differs: {} x {} saved against {} x {} here, models are not the same",
                       range.whole_rows, range.whole_columns, tensor.range.whole_rows,
                       tensor.range.whole_columns));
  return *found;
}

// From whatever ranks have saved of it.
std::vector<char> Loader::gather(const SavedTensor& from, const StateTensor& to) {
  if (from.copies_differ())
    refuse(to.name, "ranks saved copies of it that differ; only the layout " + manifest_.layout +
                        " can go on from it");
  const size_t element = size_of(to.type);
  const std::vector<Piece> wanted = pieces_of(to.range);
  std::vector<char> bytes(to.bytes());
  int64_t filled = 0;
  for (const SavedPart& part : from.parts) {
    const std::vector<Piece> there = pieces_of(part.range);
    const auto ignore = [](int64_t, int64_t, int64_t) {};
    if (for_each_common(there, wanted, ignore) == 0) continue;
    const std::vector<char> source = reader_.read(from, part);
    filled += for_each_common(there, wanted, [&](int64_t at, int64_t place, int64_t count) {
      std::memcpy(bytes.data() + static_cast<size_t>(place) * element,
                  source.data() + static_cast<size_t>(at) * element,
                  static_cast<size_t>(count) * element);
    });
  }
  if (filled != to.range.count)
    refuse(to.name, fmt::format("{} of {} elements were saved", filled, to.range.count));
  return bytes;
}

void Loader::fill(const StateTensor& tensor) {
  if (tensor.range.count == 0) return;
  const SavedTensor& from = saved(tensor);
  const SavedPart* own = same_layout_ ? from.held_by(rank_) : nullptr;
  const bool as_it_was = own != nullptr && own->range == tensor.range;
  const std::vector<char> bytes = as_it_was ? reader_.read(from, *own) : gather(from, tensor);
  if (tensor.on_device) {
    train_.device().copy_from_host(tensor.data, bytes.data(), bytes.size());
  } else {
    std::memcpy(tensor.data, bytes.data(), bytes.size());
  }
}

// What all ranks hold now, put together, is what was saved.
void Loader::require_whole(const std::set<std::string>& leave_out) const {
  const auto tables = gather_states(train_.mesh().world(), describe_state(train_));
  for (const SavedTensor& now : merge_states(tables)) {
    if (leave_out.contains(now.item)) continue;
    const SavedTensor& then = *manifest_.find(now.name);
    if (then.copies_differ() && same_layout_) continue;  // each part was held against its own
    if (now.copies_differ() || now.fingerprint() != then.fingerprint())
      refuse(now.name, "what was loaded of it has not the fingerprint that was saved");
  }
}

void Loader::load(const std::set<std::string>& leave_out) {
  train_.reset(kNoSeed);
  std::set<std::string> items;
  for (const StateTensor& tensor : train_.state()) {
    items.insert(tensor.item);
    if (!leave_out.contains(tensor.item)) fill(tensor);
  }
  for (const SavedTensor& tensor : manifest_.tensors) {
    if (!items.contains(tensor.item))
      refuse(tensor.name, "this case has no such state; it was saved by case " + manifest_.case_id);
  }
  train_.device().synchronize();
  require_whole(leave_out);
}

}  // namespace

void verify_checkpoint(const std::filesystem::path& checkpoint) {
  PartReader reader(checkpoint);
  for (const SavedTensor& tensor : read_manifest(checkpoint).tensors) {
    for (const SavedPart& part : tensor.parts) {
      if (part.range.count > 0) reader.read(tensor, part);
    }
  }
}

void load_checkpoint(const std::filesystem::path& checkpoint, TrainStep& train,
                     const LoadSettings& settings) {
  Loader(checkpoint, train).load(settings.leave_out);
}

}  // namespace dettax
