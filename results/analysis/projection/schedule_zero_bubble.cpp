#include <algorithm>
#include <deque>

#include "harness/base/error.h"
#include "results/analysis/projection/schedule.h"

// Zero-bubble orders (Qi et al., arXiv:2401.10241 and 2405.15362) found by letting the stages work in unit time: whoever is free takes
// the input gradient that others wait for, else a forward pass if its memory allows one, else a weight gradient it put off.
namespace dettax::schedules {
namespace {

struct Pending {
  int64_t at;  // unit time from which it can be done
  int32_t micro;
  uint8_t chunk;
};

struct StageState {
  std::deque<Pending> forward[2], backward[2];
  std::deque<Pending> weights;
  int64_t free_at = 0;
  int64_t forwards = 0, inputs = 0, weights_done = 0;
};

class UnitTime {
 public:
  UnitTime(const ScheduleRequest& request, Placement placement)
      : chunks_(placement == Placement::vee ? 2 : 1),
        schedule_{request.stages, chunks_, request.micro_batches, placement, {}},
        stages_(static_cast<size_t>(request.stages)) {
    schedule_.order.resize(stages_.size());
    for (int32_t micro = 0; micro < request.micro_batches; ++micro)
      stages_[0].forward[0].push_back({0, micro, 0});
  }

  Schedule run() {
    const int64_t tasks = 3 * schedule_.micro_batches * chunks_ * schedule_.stages;
    int64_t done = 0;
    for (int64_t now = 0; done < tasks; ++now) {
      if (now > 4 * tasks + 64) throw Error(ErrorKind::internal, "a zero-bubble schedule stalls");
      for (int stage = 0; stage < schedule_.stages; ++stage) done += step(stage, now) ? 1 : 0;
    }
    return std::move(schedule_);
  }

 private:
  bool take(std::deque<Pending>& queue, int64_t now, Pending& taken) {
    if (queue.empty() || queue.front().at > now) return false;
    taken = queue.front();
    queue.pop_front();
    return true;
  }

  // A stage of 1F1B holds one micro-batch for each stage behind it. In a V each holds as much as the first stage of 1F1B.
  bool may_forward(int stage, const StageState& s) const {
    const int64_t most = int64_t{schedule_.stages} * chunks_;
    const int64_t ahead = chunks_ == 2 ? most : schedule_.stages - stage;
    return s.forwards - s.inputs < ahead && s.forwards - s.weights_done < most;
  }

  bool step(int stage, int64_t now) {
    StageState& s = stages_[static_cast<size_t>(stage)];
    if (s.free_at > now) return false;
    Pending taken{};
    // The later chunk first: it brings a micro-batch nearer to its end.
    for (int chunk = chunks_ - 1; chunk >= 0; --chunk) {
      if (take(s.backward[chunk], now, taken)) return did(stage, now, Pass::backward_input, taken);
    }
    for (int chunk = chunks_ - 1; chunk >= 0; --chunk) {
      if (may_forward(stage, s) && take(s.forward[chunk], now, taken))
        return did(stage, now, Pass::forward, taken);
    }
    return take(s.weights, now, taken) && did(stage, now, Pass::backward_weight, taken);
  }

  bool did(int stage, int64_t now, Pass pass, const Pending& task) {
    StageState& s = stages_[static_cast<size_t>(stage)];
    s.free_at = now + 1;
    schedule_.order[static_cast<size_t>(stage)].push_back({pass, task.chunk, 0, task.micro, 0});
    const int64_t ready = now + 1;
    if (pass == Pass::forward) {
      ++s.forwards;
      const auto next = schedule_.next(stage, task.chunk);
      const auto to = static_cast<size_t>(next.stage < 0 ? stage : next.stage);
      auto& queue = next.stage < 0 ? stages_[to].backward[task.chunk]
                                   : stages_[to].forward[static_cast<size_t>(next.chunk)];
      const auto chunk = next.stage < 0 ? task.chunk : static_cast<uint8_t>(next.chunk);
      queue.push_back({ready, task.micro, chunk});
    } else if (pass == Pass::backward_input) {
      ++s.inputs;
      s.weights.push_back({ready, task.micro, task.chunk});
      const auto before = schedule_.previous(stage, task.chunk);
      if (before.stage >= 0) {
        stages_[static_cast<size_t>(before.stage)]
            .backward[static_cast<size_t>(before.chunk)]
            .push_back({ready, task.micro, static_cast<uint8_t>(before.chunk)});
      }
    } else {
      ++s.weights_done;
    }
    return true;
  }

  int chunks_;
  Schedule schedule_;
  std::vector<StageState> stages_;
};

}  // namespace

Schedule zero_bubble(const ScheduleRequest& request, Placement placement) {
  return UnitTime(request, placement).run();
}

}  // namespace dettax::schedules
