// How long the simulator takes. One core; --benchmark_filter chooses.
#include <benchmark/benchmark.h>

#include "harness/plan/suite.h"
#include "results/analysis/projection/simulate.h"
#include "results/analysis/projection/sweep.h"

namespace dettax {
namespace {

// 16,384 GPUs: tp8, pp16, dp128, four virtual stages.
TrainingPlan large(int64_t micro_batches) {
  TrainingPlan plan;
  plan.model = load_model("llama3.1-405b");
  plan.layout.tp = 8;
  plan.layout.pp = 16;
  plan.layout.dp = 128;
  plan.layout.vp = 4;
  plan.layout.sequence_parallel = true;
  plan.layout.zero_stage = 1;
  plan.schedule = ScheduleKind::interleaved;
  plan.model.layers = 128;  // 126 do not fill 64 chunks evenly
  plan.batch = {1, micro_batches * plan.layout.dp, 8192};
  return plan;
}

void one_step(benchmark::State& state) {
  const Hardware machine = load_hardware("h100");
  const TrainingPlan plan = large(state.range(0));
  const DeterminismCost fast;
  const Situation situation{machine, plan, fast};
  for (auto _ : state) benchmark::DoNotOptimize(simulate(situation, StepJitter{}, 1));
  state.counters["tasks"] = static_cast<double>(make_schedule(schedule_request(plan)).tasks());
  state.SetComplexityN(state.range(0));
}
BENCHMARK(one_step)
    ->RangeMultiplier(2)
    ->Range(16, 512)
    ->Unit(benchmark::kMillisecond)
    ->Complexity(benchmark::oN);

void thousand_layouts(benchmark::State& state) {
  const Hardware machine = load_hardware("h100");
  TrainingPlan plan = large(64);
  plan.model = load_model("llama3-70b");
  for (auto _ : state) {
    const Sweep sweep = sweep_layouts(machine, plan, 1000);
    state.counters["layouts"] = static_cast<double>(sweep.rows.size());
  }
}
BENCHMARK(thousand_layouts)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace dettax

BENCHMARK_MAIN();
