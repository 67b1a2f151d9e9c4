#include "harness/train/state.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "harness/train/state_fingerprint.h"

namespace dettax {
namespace {

ParameterSpec spec_of(const StateRange& range, const std::string& name) {
  ParameterSpec spec;
  spec.name = name;
  for (const RowBlock& block : range.blocks) spec.rows += block.count;
  spec.columns = range.columns;
  spec.whole_rows = range.whole_rows;
  spec.whole_columns = range.whole_columns;
  spec.blocks = range.blocks;
  spec.first_column = range.first_column;
  return spec;
}

template <typename T>
std::string number_at(const void* data) {
  T value{};
  std::memcpy(&value, data, sizeof value);
  return fmt::format("{}", value);
}

std::string value_of(const StateTensor& tensor) {
  if (tensor.on_device || tensor.range.count != 1) return "";
  switch (tensor.type) {
    case StateType::f32:
      return number_at<float>(tensor.data);
    case StateType::f64:
      return number_at<double>(tensor.data);
    case StateType::i64:
      return number_at<int64_t>(tensor.data);
    case StateType::u64:
      return number_at<uint64_t>(tensor.data);
  }
  return "";
}

}  // namespace

size_t size_of(StateType type) { return type == StateType::f32 ? 4 : 8; }

StateEntry describe_state(const StateTensor& tensor, Device& device) {
  StateEntry entry{tensor.item, tensor.name, tensor.type, tensor.range, {}, value_of(tensor)};
  if (!tensor.on_device) {
    entry.fingerprint = fingerprint_part(tensor.range, tensor.type, tensor.data);
  } else if (tensor.range.count > 0) {
    const Tensor held = make_tensor(tensor.data, DType::f32, {tensor.range.count});
    entry.fingerprint =
        fingerprint_part(device, spec_of(tensor.range, tensor.name), {held, tensor.range.first});
  }
  return entry;
}

std::vector<Run> runs_of(const StateRange& range) {
  const ParameterSpec spec = spec_of(range, "state");
  std::vector<Run> runs;
  for (int64_t done = 0; done < range.count;) {
    Run run = run_at(spec, range.first + done);
    run.count = std::min(run.count, range.count - done);
    done += run.count;
    runs.push_back(run);
  }
  return runs;
}

Fingerprint fingerprint_part(const StateRange& range, StateType type, const void* host) {
  Fingerprint sum;
  const auto* bytes = static_cast<const char*>(host);
  for (const Run& run : runs_of(range)) {
    const auto count = static_cast<size_t>(run.count);
    sum += fingerprint(bytes, count, size_of(type), static_cast<uint64_t>(run.whole_index));
    bytes += count * size_of(type);
  }
  return sum;
}

}  // namespace dettax
