#include <algorithm>
#include <array>

#include "results/analysis/projection/schedule.h"

namespace dettax::schedules {
namespace {

// Appends one stage's passes in the order of their micro-batches; asking for more than there are adds nothing.
class StageOrder {
 public:
  explicit StageOrder(int64_t micro_batches) : micro_batches_(micro_batches) {}
  void add(Pass pass, uint8_t chunk) {
    int64_t& next = done(pass, chunk);
    if (next == micro_batches_) return;
    order_.push_back({pass, chunk, 0, static_cast<int32_t>(next++), 0});
  }
  int64_t& done(Pass pass, uint8_t chunk) { return done_[chunk][static_cast<size_t>(pass)]; }
  std::vector<PipelineTask> take() { return std::move(order_); }

 private:
  int64_t micro_batches_;
  std::array<std::array<int64_t, 5>, 2> done_{};
  std::vector<PipelineTask> order_;
};

// Qi et al., arXiv:2401.10241: 1F1B whose stage s puts off s weight gradients; so none holds more than the first stage of 1F1B does.
std::vector<PipelineTask> one_chunk(const ScheduleRequest& r, int stage) {
  StageOrder order(r.micro_batches);
  for (int k = 0; k < r.stages - stage - 1; ++k) order.add(Pass::forward, 0);
  for (int64_t k = 0; k < r.micro_batches; ++k) {
    order.add(Pass::forward, 0);
    order.add(Pass::backward_input, 0);
    if (k >= stage) order.add(Pass::backward_weight, 0);
  }
  for (int k = 0; k < stage; ++k) order.add(Pass::backward_weight, 0);
  return order.take();
}

// Qi et al., arXiv:2405.15362: chunk 0 on the way down the V, chunk 1 on the way up; the last stage's forward meets its backward.
std::vector<PipelineTask> two_chunks(const ScheduleRequest& r, int stage) {
  constexpr Pass kForward = Pass::forward, kInput = Pass::backward_input,
                 kWeight = Pass::backward_weight;
  StageOrder order(r.micro_batches);
  const int below = r.stages - stage;
  for (int k = 0; k < 2 * below - 1; ++k) order.add(kForward, 0);
  for (int k = 0; k < stage; ++k) {
    order.add(kForward, 1);
    order.add(kForward, 0);
  }
  for (int k = 0; k < below; ++k) {
    for (const Pass pass : {kForward, kInput, kWeight}) order.add(pass, 1);
  }
  while (order.done(kForward, 1) < r.micro_batches) {
    for (const uint8_t chunk : {uint8_t{0}, uint8_t{1}}) {
      for (const Pass pass : {kForward, kInput, kWeight}) order.add(pass, chunk);
    }
  }
  for (int k = 0; k < stage; ++k) {
    order.add(kInput, 0);
    order.add(kInput, 1);
  }
  for (int k = 0; k < below; ++k) {
    order.add(kInput, 0);
    order.add(kWeight, 0);
  }
  while (order.done(kWeight, 1) < order.done(kInput, 1)) order.add(kWeight, 1);
  while (order.done(kWeight, 0) < order.done(kInput, 0)) order.add(kWeight, 0);
  return order.take();
}

}  // namespace

Schedule zero_bubble(const ScheduleRequest& request, ChunkPlacement placement) {
  const bool vee = placement == ChunkPlacement::vee;
  Schedule schedule{request.stages, vee ? 2 : 1, request.micro_batches, placement, {}};
  for (int stage = 0; stage < request.stages; ++stage)
    schedule.order.push_back(vee ? two_chunks(request, stage) : one_chunk(request, stage));
  return schedule;
}

}  // namespace dettax::schedules
