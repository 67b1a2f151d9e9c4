#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/base/fingerprint.h"
#include "harness/device/device.h"
#include "harness/train/model_layout.h"

namespace dettax {

// Items of the state that a training step must have to go on as if it had never stopped; what else it needs the case says. Weights are
// f32 and their own masters. Random numbers are counter-based: a stream's place follows from the seed, the step and a sample's number.
namespace state_item {
inline constexpr const char* kWeights = "weights";
inline constexpr const char* kFirstMoment = "optimizer.first_moment";
inline constexpr const char* kSecondMoment = "optimizer.second_moment";
inline constexpr const char* kUpdates = "optimizer.updates";  // Adam's step
inline constexpr const char* kSeed = "random.seed";           // of all streams
inline constexpr const char* kStep = "data.step";        // place in the data and in all streams
inline constexpr const char* kLossScale = "loss_scale";  // fp16
inline constexpr const char* kGoodSteps = "loss_scale.good_steps";  // fp16
inline constexpr const char* kOperandHistory = "operands.history";  // fp8 with delayed scales
inline constexpr const char* kOperandSteps = "operands.steps";      // place in that history
}  // namespace state_item

enum class StateType { f32, f64, i64, u64 };
size_t size_of(StateType type);

// Of a whole tensor [whole_rows, whole_columns] the part that a rank holds: some blocks of rows, columns from first_column on, and of
// these elements [first, first + count), in this order.
struct StateRange {
  int64_t whole_rows = 1, whole_columns = 1;
  std::vector<RowBlock> blocks = {{0, 1}};
  int64_t first_column = 0, columns = 1;
  int64_t first = 0, count = 1;

  friend auto operator<=>(const StateRange&, const StateRange&) = default;
};

// A rank's part of one tensor of state, where it lies: to be read and written in place between steps.
struct StateTensor {
  std::string item;  // of state_item
  std::string name;  // of the whole tensor: a rank has one part of it
  StateType type = StateType::f32;
  StateRange range;
  void* data = nullptr;
  bool on_device = false;

  size_t bytes() const { return static_cast<size_t>(range.count) * size_of(type); }
};

// What can be told of a part without its data. `value` is a single number in words, of others empty.
struct StateEntry {
  std::string item, name;
  StateType type = StateType::f32;
  StateRange range;
  Fingerprint fingerprint;  // of its elements at their places in the whole tensor
  std::string value;
  friend bool operator==(const StateEntry&, const StateEntry&) = default;
};
StateEntry describe_state(const StateTensor& tensor, Device& device);

// Where its elements are in the whole tensor, in the order in which they are held.
std::vector<Run> runs_of(const StateRange& range);

// The same fingerprint of a copy in host memory.
Fingerprint fingerprint_part(const StateRange& range, StateType type, const void* host);

}  // namespace dettax
