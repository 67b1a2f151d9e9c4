#include "results/analysis/projection/pipeline_engine.h"

#include <algorithm>

#include "harness/base/error.h"

namespace dettax {
namespace {

constexpr double kNotYet = -1;

class Engine {
 public:
  Engine(const Schedule& schedule, const PipelineInput& input)
      : schedule_(schedule),
        input_(input),
        places_(static_cast<size_t>(schedule.stages * schedule.chunks)),
        forward_end_(places_ * static_cast<size_t>(schedule.micro_batches), kNotYet),
        backward_end_(forward_end_.size(), kNotYet),
        next_(static_cast<size_t>(schedule.stages), 0),
        first_factor_(next_.size(), 0) {
    for (size_t s = 1; s < next_.size(); ++s)
      first_factor_[s] = first_factor_[s - 1] + schedule.order[s - 1].size();
    result_.stages.resize(next_.size());
    for (StageTimes& stage : result_.stages) {
      stage.last_backward_end.assign(static_cast<size_t>(schedule.chunks), 0);
      stage.first_forward_start.assign(static_cast<size_t>(schedule.chunks), kNotYet);
    }
    before_.resize(places_);
    after_.resize(places_);
    for (int s = 0; s < schedule.stages; ++s) {
      for (int c = 0; c < schedule.chunks; ++c) {
        before_[place(s, c)] = schedule.previous(s, c);
        after_[place(s, c)] = schedule.next(s, c);
      }
    }
  }

  PipelineTimes run() {
    std::vector<int> ready;
    for (int s = schedule_.stages - 1; s >= 0; --s) ready.push_back(s);
    int64_t done = 0;
    while (!ready.empty()) {
      const int stage = ready.back();
      ready.pop_back();
      while (advance(stage, ready)) ++done;
    }
    if (done != schedule_.tasks())
      throw Error(ErrorKind::internal, "a pipeline schedule waits for itself");
    for (const StageTimes& stage : result_.stages) {
      result_.makespan = std::max(result_.makespan, stage.end);
      result_.span = std::max(result_.span, stage.end - stage.first_start);
    }
    return std::move(result_);
  }

 private:
  size_t place(int stage, int chunk) const {
    return static_cast<size_t>(stage * schedule_.chunks + chunk);
  }
  size_t slot(int stage, int chunk, int32_t micro) const {
    return place(stage, chunk) * static_cast<size_t>(schedule_.micro_batches) +
           static_cast<size_t>(micro);
  }

  // When what came from `end` of another place is here; kNotYet if it has not been made.
  double arrival(double end, int from, int to) const {
    if (end == kNotYet) return kNotYet;
    return from == to ? end : end + input_.send_seconds;
  }

  double forward_ready(int stage, int chunk, int32_t micro) const {
    const Schedule::Place& from = before_[place(stage, chunk)];
    if (from.stage < 0) return 0;
    return arrival(forward_end_[slot(from.stage, from.chunk, micro)], from.stage, stage);
  }
  double backward_ready(int stage, int chunk, int32_t micro) const {
    const double own = forward_end_[slot(stage, chunk, micro)];
    const Schedule::Place& from = after_[place(stage, chunk)];
    if (from.stage < 0 || own == kNotYet) return own;
    const double other =
        arrival(backward_end_[slot(from.stage, from.chunk, micro)], from.stage, stage);
    return other == kNotYet ? kNotYet : std::max(own, other);
  }

  double ready_at(int stage, const PipelineTask& t) const {
    switch (t.pass) {
      case Pass::forward:
        return forward_ready(stage, t.chunk, t.micro);
      case Pass::backward:
      case Pass::backward_input:
        return backward_ready(stage, t.chunk, t.micro);
      case Pass::backward_weight:
        return backward_end_[slot(stage, t.chunk, t.micro)];
      case Pass::both: {
        const double forward = forward_ready(stage, t.chunk, t.micro);
        const double backward = backward_ready(stage, t.other_chunk, t.other_micro);
        return forward == kNotYet || backward == kNotYet ? kNotYet : std::max(forward, backward);
      }
    }
    return kNotYet;
  }

  double duration(int stage, const PipelineTask& t) const {
    const PassTimes& times = input_.times[place(stage, t.chunk)];
    switch (t.pass) {
      case Pass::forward:
        return times.forward;
      case Pass::backward:
        return times.backward();
      case Pass::backward_input:
        return times.backward_input;
      case Pass::backward_weight:
        return times.backward_weight;
      case Pass::both: {
        const PassTimes& other = input_.times[place(stage, t.other_chunk)];
        if (times.both > 0) return (times.both + other.both) / 2;
        return times.forward + other.backward();
      }
    }
    return 0;
  }

  // Does the stage's next task if it can be done, and wakes the stages that may have waited for it.
  bool advance(int stage, std::vector<int>& ready) {
    const auto s = static_cast<size_t>(stage);
    const auto& order = schedule_.order[s];
    if (next_[s] == order.size()) return false;
    const PipelineTask& task = order[next_[s]];
    const double at = ready_at(stage, task);
    if (at == kNotYet) return false;
    StageTimes& times = result_.stages[s];
    double length = duration(stage, task);
    if (!input_.factors.empty()) length *= input_.factors[first_factor_[s] + next_[s]];
    const double start = next_[s] == 0 ? at : std::max(at, times.end);
    if (next_[s] == 0) times.first_start = start;
    times.end = start + length + wait_for_sends(stage, task);
    times.busy += length;
    ++next_[s];
    finish(stage, task, start, ready);
    return true;
  }

  // Without overlap a stage stands still while it sends.
  double wait_for_sends(int stage, const PipelineTask& task) const {
    if (input_.overlap_sends || input_.send_seconds == 0) return 0;
    const bool forward = task.pass == Pass::forward || task.pass == Pass::both;
    const bool backward =
        task.pass == Pass::backward || task.pass == Pass::backward_input || task.pass == Pass::both;
    const int back_chunk = task.pass == Pass::both ? task.other_chunk : task.chunk;
    const bool sends_on = forward && after_[place(stage, task.chunk)].stage >= 0;
    const bool sends_back = backward && before_[place(stage, back_chunk)].stage >= 0;
    return input_.send_seconds * ((sends_on ? 1 : 0) + (sends_back ? 1 : 0));
  }

  void finish(int stage, const PipelineTask& task, double start, std::vector<int>& ready) {
    StageTimes& times = result_.stages[static_cast<size_t>(stage)];
    if (task.pass == Pass::forward || task.pass == Pass::both) {
      forward_end_[slot(stage, task.chunk, task.micro)] = times.end;
      double& first = times.first_forward_start[task.chunk];
      if (first == kNotYet) first = start;
      wake(after_[place(stage, task.chunk)].stage, stage, ready);
    }
    if (task.pass == Pass::forward) return;
    const int chunk = task.pass == Pass::both ? task.other_chunk : task.chunk;
    const int32_t micro = task.pass == Pass::both ? task.other_micro : task.micro;
    if (task.pass != Pass::backward_weight) {
      backward_end_[slot(stage, chunk, micro)] = times.end;
      wake(before_[place(stage, chunk)].stage, stage, ready);
    }
    if (task.pass != Pass::backward_input)
      times.last_backward_end[static_cast<size_t>(chunk)] = times.end;
  }
  static void wake(int stage, int self, std::vector<int>& ready) {
    if (stage >= 0 && stage != self) ready.push_back(stage);
  }

  const Schedule& schedule_;
  const PipelineInput& input_;
  size_t places_;
  std::vector<double> forward_end_, backward_end_;
  std::vector<size_t> next_;
  std::vector<size_t> first_factor_;
  std::vector<Schedule::Place> before_, after_;
  PipelineTimes result_;
};

}  // namespace

PipelineTimes run_pipeline(const Schedule& schedule, const PipelineInput& input) {
  return Engine(schedule, input).run();
}

}  // namespace dettax
