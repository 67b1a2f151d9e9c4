#include "harness/launch/step_recorder.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "harness/launch/machine.h"

namespace dettax {
namespace {

// Ops that do nothing but wait for other ranks or move data between them.
constexpr std::array<std::string_view, 14> kCommunication = {"tensor_all_reduce",
                                                             "sequence_all_gather",
                                                             "sequence_reduce_scatter",
                                                             "vocabulary_maxima",
                                                             "vocabulary_sums",
                                                             "sequence_gradients",
                                                             "context_exchange",
                                                             "weight_gather",
                                                             "expert_dispatch",
                                                             "expert_combine",
                                                             "bucket",
                                                             "tied_table",
                                                             "pipeline_receive",
                                                             "pipeline_send"};

Category category_of(std::string_view path) {
  const std::string_view op = path.substr(path.rfind('/') + 1);
  if (op == "memory_fill") return Category::fill;
  return std::ranges::find(kCommunication, op) == kCommunication.end() ? Category::compute
                                                                       : Category::communication;
}

}  // namespace

StepRecorder::StepRecorder(int rank, int world_size, size_t steps, size_t ops_per_step)
    : rank_(rank),
      world_size_(world_size),
      recorder_({.threads = {"rank " + std::to_string(rank)},
                 .spans_per_thread = steps * ops_per_step,
                 .steps = steps}),
      lane_(recorder_.lane(0)) {}

void StepRecorder::on_op(const char* path) {
  auto place = places_.find(path);
  if (place == places_.end())
    place = places_.emplace(path, Place{lane_.path(path), category_of(path)}).first;
  lane_.enter(place->second.path, place->second.category);
}

Trace StepRecorder::take() {
  Trace trace = recorder_.take();
  trace.rank = rank_;
  trace.world_size = world_size_;
  trace.host = node_name();
  return trace;
}

}  // namespace dettax
