#include <algorithm>

#include "results/analysis/projection/schedule.h"

namespace dettax::schedules {
namespace {

// One stage's work in DualPipe (DeepSeek-V3 report, arXiv:2412.19437, section 3.2.1, figure 5). `near` is the direction that enters the
// pipeline at this stage's half, `far` the other; weight gradients that are put off wait in a queue.
class Stage {
 public:
  Stage(int stages, int stage, int64_t micro_batches)
      : near_(stage < stages / 2 ? 0 : 1), per_direction_(micro_batches / 2) {
    const int from_end = std::min(stage, stages - 1 - stage);
    const int halves = stages / 2;
    const int outer = halves - from_end - 1;  // 0 in the middle
    middle_ = outer == 0;
    const int64_t steady = per_direction_ - stages + from_end + 1;
    fill(outer, from_end);
    for (int64_t k = 0; k < steady; ++k) main_pair(k == 0);
    for (int k = 0; k < outer; ++k) {
      backward(far(), false);
      pair(far(), near_);
    }
    drain(outer, from_end);
  }
  std::vector<PipelineTask> take() { return std::move(order_); }

 private:
  int far() const { return 1 - near_; }

  void fill(int outer, int from_end) {
    for (int k = 0; k < 2 * outer; ++k) forward(near_);
    for (int k = 0; k <= from_end; ++k) {
      forward(near_);
      forward(far());
    }
    for (int k = 0; k < outer; ++k) {
      backward(far(), true);
      weight();
      forward(far());
    }
  }

  void main_pair(bool first) {
    if (first && middle_) {  // its backward needs the forward before it
      forward(near_);
      backward(far(), false);
    } else {
      pair(near_, far());
    }
    pair(far(), near_);
  }

  // The second half of the last backward passes leaves its weight gradients for the end.
  void drain(int outer, int from_end) {
    const int last = from_end + 1;
    bool late = false;
    for (int k = 0; k < last; ++k) {
      if (k == last / 2 && from_end % 2 == 1) late = true;
      backward(far(), late);
      if (k == last / 2 && from_end % 2 == 0) late = true;
      backward(near_, late);
    }
    for (int k = 0; k < outer; ++k) {
      weight();
      backward(near_, true);
    }
    while (!waiting_.empty()) weight();
  }

  // Micro-batches of direction 0 are 0 .. m/2 - 1, those of direction 1 follow.
  int32_t micro(int direction, int64_t count) const {
    return static_cast<int32_t>(count + (direction == 1 ? per_direction_ : 0));
  }
  void forward(int direction) {
    const auto chunk = static_cast<uint8_t>(direction);
    order_.push_back({Pass::forward, chunk, 0, micro(direction, forwards_[direction]++), 0});
  }
  void backward(int direction, bool put_off) {
    const auto chunk = static_cast<uint8_t>(direction);
    const int32_t index = micro(direction, backwards_[direction]++);
    order_.push_back({put_off ? Pass::backward_input : Pass::backward, chunk, 0, index, 0});
    if (put_off) waiting_.push_back({Pass::backward_weight, chunk, 0, index, 0});
  }
  void weight() {
    order_.push_back(waiting_.front());
    waiting_.erase(waiting_.begin());
  }
  void pair(int forward_direction, int backward_direction) {
    order_.push_back({Pass::both, static_cast<uint8_t>(forward_direction),
                      static_cast<uint8_t>(backward_direction),
                      micro(forward_direction, forwards_[forward_direction]++),
                      micro(backward_direction, backwards_[backward_direction]++)});
  }

  int near_;
  int64_t per_direction_;
  bool middle_ = false;
  int64_t forwards_[2] = {0, 0};
  int64_t backwards_[2] = {0, 0};
  std::vector<PipelineTask> waiting_;
  std::vector<PipelineTask> order_;
};

}  // namespace

Schedule dualpipe(const ScheduleRequest& r) {
  Schedule schedule{r.stages, 2, r.micro_batches, ChunkPlacement::mirrored, {}};
  for (int stage = 0; stage < r.stages; ++stage)
    schedule.order.push_back(Stage(r.stages, stage, r.micro_batches).take());
  return schedule;
}

}  // namespace dettax::schedules
