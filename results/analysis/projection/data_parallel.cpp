#include "results/analysis/projection/data_parallel.h"

#include <algorithm>
#include <cmath>

#include "results/analysis/projection/layer_cost.h"
#include "results/analysis/projection/traffic_cost.h"

namespace dettax {
namespace {

// Parameters of one rank: those that every data-parallel rank holds a copy of, and experts, which fewer do.
struct Parameters {
  double shared = 0, experts = 0;
  double total() const { return shared + experts; }
};

// Of each chunk of the model, in the model's order.
std::vector<Parameters> parameters_of_chunks(const TrainingPlan& plan) {
  const Model& m = plan.model;
  const double tp = plan.layout.tp;
  const std::vector<int64_t> layers = layers_of_chunks(plan);
  std::vector<Parameters> chunks(layers.size());
  int64_t layer = 0;
  for (size_t c = 0; c < layers.size(); ++c) {
    for (int64_t k = 0; k < layers[c]; ++k, ++layer) {
      const bool moe = is_moe_layer(m, layer);
      chunks[c].shared += dense_layer_parameters(m, moe) / tp;
      if (moe) chunks[c].experts += expert_layer_parameters(m) / plan.layout.ep;
    }
  }
  chunks.front().shared += token_table_parameters(m) / tp;
  if (!m.tied_head || chunks.size() > 1) chunks.back().shared += token_table_parameters(m) / tp;
  return chunks;
}

int64_t chunk_number(const Schedule& schedule, int stage, int chunk) {
  const bool back = schedule.placement != ChunkPlacement::looped && chunk == 1;
  const int64_t within = back ? schedule.stages - 1 - stage : stage;
  return schedule.placement == ChunkPlacement::mirrored ? within
                                                        : int64_t{chunk} * schedule.stages + within;
}

struct Groups {
  GroupShape shared, experts;
};
Groups data_groups(const Situation& s) {
  const Layout& l = s.plan.layout;
  const int64_t copies = int64_t{l.dp} * l.cp;
  const int64_t of_experts = std::max<int64_t>(1, copies * l.tp / l.ep);
  return {group_shape(s.machine, copies, l.tp), group_shape(s.machine, of_experts, l.ep)};
}

double seconds(const Situation& s, CollectiveKind collective, double bytes,
               const GroupShape& group) {
  return bytes > 0 ? traffic_seconds(s, collective, bytes, group) : 0;
}

// Gradients of one chunk: bytes over buckets, each a collective.
double bucketed(const Situation& s, CollectiveKind collective, double bytes,
                const GroupShape& group, double buckets) {
  return buckets * seconds(s, collective, bytes / buckets, group);
}

bool gathers_layers(const TrainingPlan& plan) { return plan.layout.zero_stage == 3; }

}  // namespace

std::vector<ChunkTraffic> chunk_traffic(const Situation& s, const Schedule& schedule) {
  const Software& software = s.plan.software;
  const std::vector<Parameters> parameters = parameters_of_chunks(s.plan);
  const Groups groups = data_groups(s);
  const bool sharded = s.plan.data_sharded();
  const auto reduction = sharded ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
  std::vector<ChunkTraffic> traffic;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    for (int c = 0; c < schedule.chunks; ++c) {
      const Parameters& p = parameters[static_cast<size_t>(chunk_number(schedule, stage, c))];
      ChunkTraffic& t = traffic.emplace_back();
      if (gathers_layers(s.plan)) continue;  // within the passes
      const double bytes = software.gradient_bytes * s.determinism.reduction_bytes_ratio;
      t.buckets =
          std::max(1.0, std::ceil(p.total() * software.gradient_bytes / software.bucket_bytes));
      t.reduce_seconds = bucketed(s, reduction, bytes * p.shared, groups.shared, t.buckets) +
                         bucketed(s, reduction, bytes * p.experts, groups.experts, t.buckets);
      if (!sharded) continue;
      t.gather_seconds = bucketed(s, CollectiveKind::all_gather,
                                  software.parameter_bytes * p.shared, groups.shared, t.buckets) +
                         bucketed(s, CollectiveKind::all_gather,
                                  software.parameter_bytes * p.experts, groups.experts, t.buckets);
    }
  }
  return traffic;
}

namespace {

// Buckets become ready evenly over a chunk's last backward pass and are reduced one after the other; chunks in the order of their ends.
double reduce_tail(const Schedule& schedule, const ChunkTraffic* traffic, const PassTimes* passes,
                   const StageTimes& stage) {
  std::vector<int> order(static_cast<size_t>(schedule.chunks));
  for (int c = 0; c < schedule.chunks; ++c) order[static_cast<size_t>(c)] = c;
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    const double end_a = stage.last_backward_end[static_cast<size_t>(a)];
    const double end_b = stage.last_backward_end[static_cast<size_t>(b)];
    return end_a != end_b ? end_a < end_b : a < b;
  });
  double free = 0;
  for (const int c : order) {
    const ChunkTraffic& t = traffic[c];
    const double end = stage.last_backward_end[static_cast<size_t>(c)];
    const double length = passes[c].backward();
    const double each = t.reduce_seconds / t.buckets;
    for (double k = 1; k <= t.buckets; ++k)
      free = std::max(free, end - length * (1 - k / t.buckets)) + each;
  }
  return std::max(0.0, free - stage.end);
}

// Weights of the chunks arrive one after the other from the step's start on; a pass waits for its own.
double gather_wait(const Schedule& schedule, const ChunkTraffic* traffic, const PassTimes* passes,
                   const StageTimes& stage) {
  double arrived = 0;
  double wait = 0;
  for (int c = 0; c < schedule.chunks; ++c) {
    const double first = arrived + traffic[c].gather_seconds / traffic[c].buckets;
    arrived += traffic[c].gather_seconds;
    const double start = stage.first_forward_start[static_cast<size_t>(c)];
    wait = std::max({wait, first - start, arrived - start - passes[c].forward});
  }
  return wait;
}

}  // namespace

DataTimes data_times(const Situation& s, const Schedule& schedule,
                     const std::vector<ChunkTraffic>& traffic, const std::vector<PassTimes>& passes,
                     const PipelineTimes& times) {
  const bool hidden = s.plan.software.data_overlap && s.determinism.data_overlap;
  DataTimes result;
  double end = times.makespan;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const auto first = static_cast<size_t>(stage * schedule.chunks);
    const StageTimes& at = times.stages[static_cast<size_t>(stage)];
    double tail = 0;
    double wait = 0;
    if (hidden) {
      tail = reduce_tail(schedule, &traffic[first], &passes[first], at);
      wait = gather_wait(schedule, &traffic[first], &passes[first], at);
    } else {
      for (int c = 0; c < schedule.chunks; ++c) {
        tail += traffic[first + static_cast<size_t>(c)].reduce_seconds;
        wait += traffic[first + static_cast<size_t>(c)].gather_seconds;
      }
    }
    end = std::max(end, at.end + tail);
    result.wait = std::max(result.wait, wait);
  }
  result.tail = end - times.makespan;
  return result;
}

void add_gathering(const Situation& s, const Schedule& schedule, std::vector<PassTimes>& passes) {
  if (!gathers_layers(s.plan)) return;
  const Software& software = s.plan.software;
  const std::vector<Parameters> parameters = parameters_of_chunks(s.plan);
  const std::vector<int64_t> layers = layers_of_chunks(s.plan);
  const Groups all = data_groups(s);
  const int64_t sharing = software.shard_ranks > 0
                              ? std::min(software.shard_ranks, all.shared.ranks)
                              : all.shared.ranks;
  const GroupShape group = group_shape(s.machine, sharing, s.plan.layout.tp);
  const bool hidden = software.data_overlap && s.determinism.data_overlap;
  for (size_t place = 0; place < passes.size(); ++place) {
    const auto number =
        static_cast<size_t>(chunk_number(schedule, static_cast<int>(place) / schedule.chunks,
                                         static_cast<int>(place) % schedule.chunks));
    const double count = static_cast<double>(std::max<int64_t>(1, layers[number]));
    const double each = parameters[number].shared / count;
    const double gather =
        seconds(s, CollectiveKind::all_gather, software.parameter_bytes * each, group);
    const double scatter =
        seconds(s, CollectiveKind::reduce_scatter,
                software.gradient_bytes * s.determinism.reduction_bytes_ratio * each, group);
    PassTimes& p = passes[place];
    const double forward = p.forward / count;
    const double backward = p.backward() / count;
    const double exposed_forward = hidden ? std::max(0.0, gather - forward) : gather;
    const double exposed_backward =
        hidden ? std::max(0.0, gather + scatter - backward) : gather + scatter;
    const double slower = s.machine.efficiency.interference_ratio;
    p.forward += count * exposed_forward + slower * std::min(count * gather, p.forward);
    p.backward_input +=
        count * exposed_backward + slower * std::min(count * (gather + scatter), p.backward());
    if (p.both > 0) p.both += count * (exposed_forward + exposed_backward);
  }
}

double parameters_per_rank(const TrainingPlan& plan) {
  const std::vector<Parameters> parameters = parameters_of_chunks(plan);
  const ScheduleRequest request = schedule_request(plan);
  // Enough of a schedule to know which chunks meet on a stage.
  Schedule shape{request.stages, request.chunks, 1, ChunkPlacement::looped, {}};
  if (plan.schedule == ScheduleKind::zbv) shape = {request.stages, 2, 1, ChunkPlacement::vee, {}};
  if (plan.schedule == ScheduleKind::dualpipe)
    shape = {request.stages, 2, 1, ChunkPlacement::mirrored, {}};
  double most = 0;
  for (int stage = 0; stage < shape.stages; ++stage) {
    double sum = 0;
    for (int c = 0; c < shape.chunks; ++c)
      sum += parameters[static_cast<size_t>(chunk_number(shape, stage, c))].total();
    most = std::max(most, sum);
  }
  return most;
}

double optimizer_seconds(const Situation& s) {
  constexpr double kStateBytes =
      30;  // gradient, master copy, two moments read and written, weight written
  const OpCost cost(s);
  const Layout& l = s.plan.layout;
  const double held = parameters_per_rank(s.plan);
  const double own = s.plan.data_sharded() ? held / (static_cast<double>(l.dp) * l.cp) : held;
  const GroupShape group = group_shape(s.machine, s.plan.ranks(), 1);
  const double norm = seconds(s, CollectiveKind::all_reduce, 4, group);
  return cost.move(own * kStateBytes) + cost.move(own * 4) + norm +
         cost.move(own * s.determinism.digest_bytes);
}

}  // namespace dettax
