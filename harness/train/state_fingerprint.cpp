#include "harness/train/state_fingerprint.h"

#include <algorithm>
#include <string>

#include "harness/base/error.h"

namespace dettax {
namespace {

size_t place_of(const std::vector<std::string>& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) throw Error(ErrorKind::internal, "the model has no parameter " + name);
  return static_cast<size_t>(found - names.begin());
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

}  // namespace

Fingerprint fingerprint_part(Device& device, const ParameterSpec& spec, const HeldPart& part) {
  Fingerprint sum;
  const int64_t count = part.tensor.count();
  for (int64_t done = 0; done < count;) {
    const Run run = run_at(spec, part.first + done);
    float* data = part.tensor.f32() + done;
    const auto index = static_cast<uint64_t>(run.whole_index);
    // Whole rows of a tensor cut by columns, in one call.
    const int64_t rows = run.count == spec.columns && spec.columns < spec.whole_columns
                             ? (count - done) / spec.columns
                             : 0;
    if (rows > 1 && spec.blocks.size() == 1) {
      sum += device.fingerprint_rows(make_tensor(data, DType::f32, {rows, spec.columns}), index,
                                     static_cast<uint64_t>(spec.whole_columns));
      done += rows * spec.columns;
      continue;
    }
    const int64_t here = std::min(run.count, count - done);
    sum += device.fingerprint(make_tensor(data, DType::f32, {here}), index);
    done += here;
  }
  return sum;
}

std::vector<Fingerprint> fingerprint_state(const StateShards& shards, Device& device,
                                           const std::function<HeldPart(int parameter)>& part_of) {
  std::vector<Fingerprint> values(shards.names.size());
  std::vector<bool> cut(values.size());
  std::vector<bool> of_experts(values.size());
  for (size_t p = 0; p < shards.layout.parameters.size(); ++p) {
    const ParameterSpec& spec = shards.layout.parameters[p];
    const size_t place = place_of(shards.names, spec.name);
    cut[place] = spec.sharded();
    of_experts[place] = spec.of_experts;
    if (!spec.repeated)
      values[place] = fingerprint_part(device, spec, part_of(static_cast<int>(p)));
  }
  const std::vector<bool> all(values.size(), true);
  if (shards.over_replicas) sum_over(shards.mesh.replicas(), values, all);
  sum_over(shards.mesh.tensor(), values, cut);
  // Replicas of dense layers are all that share experts, and more.
  if (!shards.over_replicas) sum_over(shards.mesh.expert(), values, of_experts);
  sum_over(shards.mesh.pipeline(), values, all);
  return values;
}

}  // namespace dettax
