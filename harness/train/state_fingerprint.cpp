#include "harness/train/state_fingerprint.h"

#include <algorithm>
#include <string>
#include <utility>

#include "harness/base/error.h"

namespace dettax {
namespace {

// Of each parameter that the rank holds, its number in the whole model. Most follow each other there.
std::vector<size_t> places_of(const StateShards& shards) {
  std::vector<size_t> places;
  auto next = shards.names.begin();
  for (const ParameterSpec& spec : shards.layout.parameters) {
    if (next == shards.names.end() || *next != spec.name)
      next = std::ranges::find(shards.names, spec.name);
    if (next == shards.names.end())
      throw Error(ErrorKind::internal, "the model has no parameter " + spec.name);
    places.push_back(static_cast<size_t>(next++ - shards.names.begin()));
  }
  return places;
}

// values[i] becomes the sum over the group where `adds[i]`.
void sum_over(Communicator& group, std::vector<Fingerprint>& values,
              const std::vector<bool>& adds) {
  if (group.size() == 1) return;
  const size_t count = values.size();
  std::vector<Fingerprint> all(count * static_cast<size_t>(group.size()));
  group.all_gather(values.data(), all.data(), static_cast<int64_t>(count * sizeof(Fingerprint)));
  for (size_t i = 0; i < count; ++i) {
    if (!adds[i]) continue;
    values[i] = {};
    for (size_t at = i; at < all.size(); at += count) values[i] += all[at];
  }
}

// What the device is to look at of it.
void add_parts(const ParameterSpec& spec, const HeldPart& part, std::vector<FingerprintPart>& out) {
  const int64_t count = part.tensor.count();
  for (int64_t done = 0; done < count;) {
    const Run run = run_at(spec, part.first + done);
    float* data = part.tensor.f32() + done;
    const auto index = static_cast<uint64_t>(run.whole_index);
    // Whole rows of a tensor cut by columns, in one piece.
    const int64_t rows = run.count == spec.columns && spec.columns < spec.whole_columns
                             ? (count - done) / spec.columns
                             : 0;
    if (rows > 1 && spec.blocks.size() == 1) {
      out.push_back({make_tensor(data, DType::f32, {rows, spec.columns}), index,
                     static_cast<uint64_t>(spec.whole_columns)});
      done += rows * spec.columns;
      continue;
    }
    const int64_t here = std::min(run.count, count - done);
    out.push_back({make_tensor(data, DType::f32, {here}), index, 0});
    done += here;
  }
}

// The sums over the ranks that hold parts of them.
void add_over_ranks(const StateShards& shards, const std::vector<size_t>& places,
                    std::vector<Fingerprint>& values) {
  std::vector<bool> cut(values.size());
  std::vector<bool> of_experts(values.size());
  for (size_t p = 0; p < places.size(); ++p) {
    cut[places[p]] = shards.layout.parameters[p].sharded();
    of_experts[places[p]] = shards.layout.parameters[p].of_experts;
  }
  const std::vector<bool> all(values.size(), true);
  if (shards.over_replicas) sum_over(shards.mesh.replicas(), values, all);
  sum_over(shards.mesh.tensor(), values, cut);
  // Replicas of dense layers are all that share experts, and more.
  if (!shards.over_replicas) sum_over(shards.mesh.expert(), values, of_experts);
  sum_over(shards.mesh.pipeline(), values, all);
}

}  // namespace

Fingerprint fingerprint_part(Device& device, const ParameterSpec& spec, const HeldPart& part) {
  std::vector<FingerprintPart> parts;
  add_parts(spec, part, parts);
  Fingerprint sum;
  for (const Fingerprint& value : device.fingerprints(parts)) sum += value;
  return sum;
}

std::vector<std::vector<Fingerprint>> fingerprint_state(std::span<const StateKind> kinds,
                                                        Device& device) {
  std::vector<std::vector<Fingerprint>> values;
  std::vector<FingerprintPart> parts;
  std::vector<std::vector<size_t>> places;        // [kind][parameter]
  std::vector<std::pair<size_t, size_t>> owners;  // kind and place of each part
  for (const StateKind& kind : kinds) {
    const size_t k = places.size();
    places.push_back(places_of(kind.shards));
    for (size_t p = 0; p < places[k].size(); ++p) {
      const ParameterSpec& spec = kind.shards.layout.parameters[p];
      if (spec.repeated) continue;
      add_parts(spec, kind.part_of(static_cast<int>(p)), parts);
      owners.resize(parts.size(), {k, places[k][p]});
    }
    values.emplace_back(kind.shards.names.size());
  }
  const std::vector<Fingerprint> found = device.fingerprints(parts);
  for (size_t i = 0; i < found.size(); ++i) values[owners[i].first][owners[i].second] += found[i];
  for (size_t k = 0; k < kinds.size(); ++k) add_over_ranks(kinds[k].shards, places[k], values[k]);
  return values;
}

}  // namespace dettax
