#include "results/analysis/projection/layer_traffic.h"

#include <algorithm>
#include <cmath>

#include "results/analysis/projection/traffic_cost.h"

namespace dettax {

TensorTraffic tensor_traffic(const Situation& s) {
  const int tp = s.plan.layout.tp;
  if (tp == 1) return {};
  const double bytes =
      element_bytes(s.plan.precision) * s.plan.tokens() * static_cast<double>(s.plan.model.width);
  const GroupShape group = group_shape(s.machine, tp, 1);
  const auto once = [&](CollectiveKind collective) {
    return traffic_seconds(s, collective, bytes, group);
  };
  if (!s.plan.layout.sequence_parallel) {
    const double reduce = 2 * once(CollectiveKind::all_reduce);
    return {reduce, 0, reduce};
  }
  const double gather = once(CollectiveKind::all_gather);
  const double scatter = once(CollectiveKind::reduce_scatter);
  return {2 * (gather + scatter), 2 * gather, 2 * (gather + scatter)};
}

double context_traffic(const Situation& s) {
  const int cp = s.plan.layout.cp;
  if (cp == 1) return 0;
  const Model& m = s.plan.model;
  const double kv = std::max(1.0, static_cast<double>(m.key_value_heads) / s.plan.layout.tp);
  const double bytes = element_bytes(s.plan.precision) * s.plan.tokens() * 2 * kv *
                       static_cast<double>(m.head_width);
  const GroupShape group = group_shape(s.machine, cp, s.plan.layout.tp);
  return static_cast<double>(cp - 1) *
         traffic_seconds(s, CollectiveKind::point_to_point, bytes, group);
}

double expert_traffic(const Situation& s) {
  const int ep = s.plan.layout.ep;
  if (ep == 1) return 0;
  const Moe& moe = *s.plan.model.moe;
  const double rows = s.plan.tokens() / (s.plan.layout.sequence_parallel ? s.plan.layout.tp : 1);
  const GroupShape group = group_shape(s.machine, ep, 1);
  const auto domains = static_cast<double>(group.domains());
  const auto copies = static_cast<double>(moe.top_k);
  const double reached = domains * (1 - std::pow(1 - 1 / domains, copies));
  const double width = static_cast<double>(s.plan.model.width);
  const double near = element_bytes(s.plan.precision) * rows * copies * width;
  if (domains == 1) return 2 * traffic_seconds(s, CollectiveKind::all_to_all, near, group);
  const double far = element_bytes(s.plan.precision) * rows * reached * width;
  return 2 * traffic_seconds(s, CollectiveKind::all_to_all, far, group);
}

double exposed_traffic(const Situation& s, double traffic, double work) {
  const double hidden = std::min(traffic, s.machine.efficiency.tensor_overlap_ratio * work);
  return traffic - hidden + s.machine.efficiency.interference_ratio * hidden;
}

}  // namespace dettax
