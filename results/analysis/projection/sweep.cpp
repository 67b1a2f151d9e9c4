#include "results/analysis/projection/sweep.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "results/analysis/projection/plan_limits.h"

namespace dettax {
namespace {

std::vector<int> powers_up_to(int64_t most) {
  std::vector<int> sizes;
  for (int64_t size = 1; size <= most; size *= 2) sizes.push_back(static_cast<int>(size));
  return sizes;
}

struct Axes {
  int tp, cp, pp, vp, ep, micro;
  Recompute recompute;
};

TrainingPlan with_axes(const TrainingPlan& base, const Axes& a) {
  TrainingPlan plan = base;
  Layout& l = plan.layout;
  l.tp = a.tp;
  l.cp = a.cp;
  l.pp = a.pp;
  l.vp = a.vp;
  l.ep = a.ep;
  l.recompute = a.recompute;
  l.dp = static_cast<int>(base.ranks() / (int64_t{a.tp} * a.cp * a.pp));
  l.sequence_parallel = a.tp > 1;
  l.zero_stage = std::max(1, l.zero_stage);
  plan.batch.micro = a.micro;
  plan.schedule = a.vp > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
  return plan;
}

// Every combination that divides the ranks, smallest axes first.
template <typename Visit>
void each_layout(const Hardware& machine, const TrainingPlan& base, const Visit& visit) {
  const int64_t ranks = base.ranks();
  const int64_t experts = base.model.moe ? base.model.moe->experts : 1;
  for (const int tp : powers_up_to(std::min<int64_t>(8, machine.link_domain)))
    for (const int cp : powers_up_to(4))
      for (const int pp : powers_up_to(base.model.layers))
        for (const int vp :
             powers_up_to(pp == 1 ? 1 : std::min<int64_t>(8, base.model.layers / pp)))
          for (const int ep : powers_up_to(std::min<int64_t>(experts, 64)))
            for (const int micro : {1, 2, 4, 8})
              for (const Recompute recompute : {Recompute::none, Recompute::full}) {
                if (ranks % (int64_t{tp} * cp * pp) != 0) continue;
                if (!visit(with_axes(base, {tp, cp, pp, vp, ep, micro, recompute}))) return;
              }
}

}  // namespace

Sweep sweep_layouts(const Hardware& machine, const TrainingPlan& base, int most) {
  Sweep sweep;
  const DeterminismCost fast;
  each_layout(machine, base, [&](const TrainingPlan& plan) {
    ++sweep.tried;
    if (plan_refusal(plan)) {
      ++sweep.impossible;
      return true;
    }
    SweepRow row{plan, simulate(Situation{machine, plan, fast}), false};
    row.fits = row.projection.memory.total() <= machine.memory_bytes;
    sweep.rows.push_back(std::move(row));
    return static_cast<int>(sweep.rows.size()) < most;
  });
  std::stable_sort(sweep.rows.begin(), sweep.rows.end(), [](const SweepRow& a, const SweepRow& b) {
    if (a.fits != b.fits) return a.fits;
    return a.projection.step_seconds < b.projection.step_seconds;
  });
  return sweep;
}

TrainingPlan on_ranks(const TrainingPlan& plan, int64_t ranks) {
  if (ranks > kMostRanks)
    throw Error(ErrorKind::usage,
                fmt::format("{} GPUs: at most {} are projected", ranks, kMostRanks));
  const int64_t replica = plan.ranks() / plan.layout.dp;
  if (ranks < replica || ranks % replica != 0) {
    throw Error(ErrorKind::usage,
                fmt::format("{} GPUs: not a multiple of the {} that one copy of the "
                            "layout takes",
                            ranks, replica));
  }
  TrainingPlan scaled = plan;
  scaled.layout.dp = static_cast<int>(ranks / replica);
  scaled.batch.global = plan.batch.global * scaled.layout.dp / plan.layout.dp;
  return scaled;
}

}  // namespace dettax
