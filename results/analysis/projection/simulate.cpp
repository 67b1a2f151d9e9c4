#include "results/analysis/projection/simulate.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "results/analysis/projection/traffic_cost.h"

namespace dettax {
namespace {

// What does not change between the sampled steps of one situation.
struct Prepared {
  Schedule schedule;
  std::vector<PassTimes> passes;
  std::vector<ChunkTraffic> traffic;
  double send_seconds = 0;
  double optimizer = 0;
};

double send_seconds(const Situation& s) {
  const Layout& l = s.plan.layout;
  if (l.pp == 1) return 0;
  const double cut = l.sequence_parallel ? l.tp : 1;
  const double bytes = element_bytes(s.plan.precision) * s.plan.tokens() *
                       static_cast<double>(s.plan.model.width) / cut;
  const GroupShape group = group_shape(s.machine, 2, s.plan.ranks() / l.pp);
  return traffic_seconds(s, CollectiveKind::point_to_point, bytes, group);
}

Prepared prepare(const Situation& s) {
  if (const auto reason = plan_refusal(s.plan)) throw Error(ErrorKind::config, *reason);
  Prepared p;
  p.schedule = make_schedule(schedule_request(s.plan));
  p.passes = chunk_times(s, p.schedule);
  add_gathering(s, p.schedule, p.passes);
  p.traffic = chunk_traffic(s, p.schedule);
  p.send_seconds = send_seconds(s);
  p.optimizer = optimizer_seconds(s);
  return p;
}

Projection one_step(const Situation& s, const Prepared& p, std::span<const double> factors) {
  const bool hidden = s.plan.software.send_overlap && s.determinism.send_overlap;
  const PipelineTimes times = run_pipeline(p.schedule, {p.passes, p.send_seconds, hidden, factors});
  const DataTimes data = data_times(s, p.schedule, p.traffic, p.passes, times);
  Projection step;
  for (const StageTimes& stage : times.stages) {
    step.compute = std::max(step.compute, stage.busy);
    step.mean_stage_compute += stage.busy / static_cast<double>(times.stages.size());
  }
  // ZBV lets stages start their next step on their own; a norm over all gradients before the optimizer makes them meet.
  step.bubble = times.makespan - step.compute;
  step.gather_wait = data.wait;
  step.reduce_tail = data.tail;
  step.optimizer = p.optimizer;
  step.host = s.machine.efficiency.step_seconds;
  // All ranks wait for the slowest device of them.
  step.slowest_rank = s.machine.efficiency.rank_cv *
                      expected_maximum(static_cast<double>(s.plan.ranks())) *
                      (step.compute + step.bubble);
  step.step_seconds = step.gather_wait + step.compute + step.bubble + step.reduce_tail +
                      step.optimizer + step.host + step.slowest_rank;
  return step;
}

void finish(const Situation& s, Projection& step) {
  if (!std::isfinite(step.step_seconds) || step.step_seconds <= 0)
    throw Error(ErrorKind::config,
                fmt::format("cluster {}: its hardware or the table of operations makes a step of "
                            "{} take {} s, which is no time",
                            s.machine.name, s.plan.model.name, step.step_seconds));
  step.tokens_per_second = static_cast<double>(s.plan.tokens_per_step()) / step.step_seconds;
  step.mfu_ratio = model_flops(s.plan) / (step.step_seconds * static_cast<double>(s.plan.ranks()) *
                                          s.machine.peak_flops(s.plan.precision));
  step.memory = projected_memory(s.plan);
}

}  // namespace

Projection simulate(const Situation& s) {
  Projection step = one_step(s, prepare(s), {});
  finish(s, step);
  return step;
}

Projection simulate(const Situation& s, const StepJitter& jitter, int samples) {
  const Prepared prepared = prepare(s);
  Projection step = one_step(s, prepared, {});
  const Layout& l = s.plan.layout;
  const int64_t together = int64_t{l.tp} * l.cp;
  double sum = 0;
  double squares = 0;
  for (int k = 0; k < samples; ++k) {
    const auto factors =
        task_factors(prepared.schedule, jitter, together, static_cast<uint64_t>(k));
    const double t = one_step(s, prepared, factors).step_seconds;
    const double before = sum / std::max(1, k);
    sum += t;
    squares += k == 0 ? 0 : (t - before) * (t - sum / (k + 1));
  }
  const double mean = sum / samples;
  const double spread = samples > 1 ? std::sqrt(squares / (samples - 1)) : 0;
  const double replica = std::sqrt(spread * spread + jitter.step_cv * jitter.step_cv * mean * mean);
  // Sums in a fixed order also wait, chunk by chunk, for the slowest replica's last backward pass.
  double last_pass = 0;
  for (const PassTimes& pass : prepared.passes) last_pass = std::max(last_pass, pass.backward());
  const double waits =
      s.determinism.waits ? jitter.pass_cv * last_pass * expected_maximum(l.dp) : 0;
  const double slowest = mean + replica * expected_maximum(l.dp) + waits;
  step.jitter = slowest - step.step_seconds;
  step.step_seconds = slowest;
  step.step_deviation = replica / std::max(1.0, std::sqrt(2 * std::log(std::max(2, l.dp))));
  finish(s, step);
  return step;
}

}  // namespace dettax
