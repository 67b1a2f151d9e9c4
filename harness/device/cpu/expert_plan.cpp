// Where each choice of a token goes: counting sort by expert, whose last step has two forms, below and in
// expert_plan_arrival.cpp.

#include <algorithm>
#include <utility>

#include "harness/device/checks.h"
#include "harness/device/cpu/cpu_ops.h"
#include "harness/device/cpu/expert_rows.h"
#include "harness/device/op_contracts.h"

namespace dettax {
namespace {

// Of each sample: how often each expert was chosen, and for each choice its number among those kept or -1 beyond the capacity. How
// many are kept goes where the segments will be.
void number_choices(Team& team, const PlanExperts& call, const Placement& p, int32_t* counts) {
  const int32_t capacity = call.capacity > 0 ? static_cast<int32_t>(call.capacity) : INT32_MAX;
  int32_t* kept = call.plan.segments.i32();
  team.parallel_for(p.samples, 1, false, [&](int64_t begin, int64_t end, int) {
    const int64_t choices = p.tokens_per_sample * p.choices;
    for (int64_t s = begin; s < end; ++s) {
      int32_t* count = counts + s * p.expert_count;
      std::fill_n(count, p.expert_count, 0);
      for (int64_t e = 0; e < p.expert_count; ++e) kept[e * (p.samples + 1) + s] = 0;
      int32_t* first = call.before ? call.before.i32() + 2 * s * p.expert_count : nullptr;
      const auto number_half = [&](int64_t from, int64_t to, int32_t* before) {
        for (int64_t i = from; i < to; ++i) {
          const int32_t expert = p.experts[i];
          require(expert >= 0 && expert < p.expert_count, "plan_experts (expert)");
          ++count[expert];
          int32_t& number = kept[expert * (p.samples + 1) + s];
          const int32_t place = before == nullptr ? number : before[expert]++;
          p.slots[i] = place < capacity ? number++ : -1;
        }
      };
      const int64_t middle = s * choices + p.tokens_per_sample / 2 * p.choices;
      number_half(s * choices, middle, first);
      number_half(middle, (s + 1) * choices, first == nullptr ? first : first + p.expert_count);
    }
  });
}

// From how many of each there are; returns the number of rows.
int32_t lay_out_segments(const PlanExperts& call, const Placement& p) {
  int32_t* segments = call.plan.segments.i32();
  int32_t row = 0;
  for (int64_t e = 0; e < p.expert_count; ++e) {
    for (int64_t s = 0; s < p.samples; ++s) {
      row += std::exchange(segments[e * (p.samples + 1) + s], row);
    }
    segments[e * (p.samples + 1) + p.samples] = row;
  }
  return row;
}

}  // namespace

void place_in_order(Team& team, const Placement& p) {
  const int64_t choices = p.tokens_per_sample * p.choices;
  team.parallel_for(p.samples * choices, 256, false, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      if (p.slots[i] < 0) continue;
      p.slots[i] += p.segment(p.experts[i], i / choices);
      p.sources[p.slots[i]] = static_cast<int32_t>(i);
    }
  });
}

void CpuOps::plan_experts(const PlanExperts& call) {
  const ExpertPlan& plan = call.plan;
  const int64_t samples = plan.counts.rows();
  const int64_t tokens = call.experts.rows();
  const Placement p{
      plan.slots.i32(), plan.sources.i32(), plan.segments.i32(),    call.experts.i32(),
      samples,          tokens / samples,   call.experts.columns(), plan.counts.columns()};
  const int64_t choices = call.experts.count();
  require_shapes(call);
  number_choices(team_, call, p, plan.counts.i32());
  const int32_t rows = lay_out_segments(call, p);
  std::fill(p.sources + rows, p.sources + choices, -1);
  if (call.sum.order == Order::arrival) {
    place_on_arrival(team_, p, call.sum.dynamic_schedule);
  } else {
    place_in_order(team_, p);
  }
}

}  // namespace dettax
