#include "harness/train/expert_exchange.h"

namespace dettax {
namespace {

std::vector<int32_t> on_host(StepContext& c, const Tensor& ints) {
  std::vector<int32_t> values(static_cast<size_t>(ints.count()));
  c.device.copy_to_host(values.data(), ints.data, values.size() * sizeof(int32_t));
  return values;
}

void to_device(StepContext& c, const Tensor& ints, const std::vector<int32_t>& values) {
  c.device.copy_from_host(ints.data, values.data(), values.size() * sizeof(int32_t));
}

int32_t last_of(StepContext& c, const Tensor& ints) {
  int32_t value = 0;
  c.device.copy_to_host(&value, ints.i32() + ints.count() - 1, sizeof value);
  return value;
}

// Rows that one sender has for the experts here: [held, samples] of each rank.
std::vector<int32_t> exchange_counts(StepContext& c, const ExpertActivations& e) {
  const std::vector<int32_t> segments = on_host(c, e.plan.segments);
  const auto samples = static_cast<size_t>(c.samples);
  std::vector<int32_t> ours;
  for (size_t at = 0; at < segments.size(); at += samples + 1) {
    for (size_t s = 0; s < samples; ++s) ours.push_back(segments[at + s + 1] - segments[at + s]);
  }
  std::vector<int32_t> theirs(ours.size());
  const auto bytes = static_cast<int64_t>(ours.size() * sizeof(int32_t));
  c.begin(Op::expert_dispatch);
  c.mesh.expert().all_to_all(ours.data(), theirs.data(), bytes / c.mesh.expert().size());
  return theirs;
}

Tensor received_rows(const Tensor& rows, const ExpertTraffic& traffic) {
  return make_tensor(rows.data, DType::f32, {traffic.received, rows.columns()});
}

}  // namespace

bool experts_spread(const StepContext& c) { return c.mesh.expert().size() > 1; }

void agree_on_rows(StepContext& c, const ExpertActivations& e) {
  const std::vector<int32_t> counts = exchange_counts(c, e);
  const auto ranks = static_cast<size_t>(c.mesh.expert().size());
  const auto samples = static_cast<size_t>(c.samples);
  const auto held = static_cast<size_t>(e.segments.rows());
  std::vector<int32_t> segments;
  int32_t rows = 0;
  for (size_t expert = 0; expert < held; ++expert) {
    for (size_t rank = 0; rank < ranks; ++rank) {
      for (size_t s = 0; s < samples; ++s) {
        segments.push_back(rows);
        rows += counts[(rank * held + expert) * samples + s];
      }
    }
    segments.push_back(rows);
  }
  // They come in by sender, then by expert and sample.
  std::vector<int32_t> arrivals(static_cast<size_t>(rows));
  std::vector<int32_t> departures(arrivals.size());
  int32_t arrived = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (size_t expert = 0; expert < held; ++expert) {
      const int32_t* begin = &segments[expert * (ranks * samples + 1) + rank * samples];
      for (int32_t row = begin[0]; row < begin[samples]; ++row, ++arrived) {
        arrivals[static_cast<size_t>(row)] = arrived;
        departures[static_cast<size_t>(arrived)] = row;
      }
    }
  }
  to_device(c, e.segments, segments);
  to_device(c, e.arrivals, arrivals);
  to_device(c, e.departures, departures);
}

ExpertTraffic traffic_of(StepContext& c, const ExpertActivations& e) {
  ExpertTraffic traffic;
  const bool dropless = c.model.moe->capacity_factor == 0;
  traffic.sent = dropless ? e.plan.sources.count() : last_of(c, e.plan.segments);
  traffic.received = traffic.sent;
  if (!experts_spread(c)) return traffic;
  const auto ranks = static_cast<size_t>(c.mesh.expert().size());
  const auto samples = static_cast<size_t>(c.samples);
  const std::vector<int32_t> sent = on_host(c, e.plan.segments);
  const std::vector<int32_t> received = on_host(c, e.segments);
  const int64_t row_bytes = c.model.width * static_cast<int64_t>(sizeof(float));
  const size_t sent_part = sent.size() / ranks;  // segments of the experts of one rank
  const size_t received_line = ranks * samples + 1;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const int32_t* part = &sent[rank * sent_part];
    traffic.sent_bytes.push_back((part[sent_part - 1] - part[0]) * row_bytes);
    int64_t rows = 0;
    for (size_t at = rank * samples; at < received.size(); at += received_line)
      rows += received[at + samples] - received[at];
    traffic.received_bytes.push_back(rows * row_bytes);
  }
  traffic.received = received.back();
  return traffic;
}

void send_to_experts(StepContext& c, Op op, const ExpertActivations& e,
                     const ExpertTraffic& traffic, const Tensor& rows, const Tensor& expert_rows) {
  const Tensor exchanged = received_rows(c.buffers.experts.exchanged, traffic);
  c.begin(op);
  c.probe.output("rows before", rows, 0);
  c.device.synchronize();
  c.mesh.expert().all_to_all_v(rows.data, traffic.sent_bytes, exchanged.data,
                               traffic.received_bytes);
  c.ops.permute_rows({expert_rows, exchanged, e.arrivals, 1});
  c.probe.output("rows", expert_rows, 0);
}

void send_to_tokens(StepContext& c, Op op, const ExpertActivations& e, const ExpertTraffic& traffic,
                    const Tensor& expert_rows, const Tensor& rows) {
  const Tensor exchanged = received_rows(c.buffers.experts.exchanged, traffic);
  c.begin(op);
  c.ops.permute_rows({exchanged, expert_rows, e.departures, 1});
  c.probe.output("rows before", exchanged, 0);
  c.device.synchronize();
  c.mesh.expert().all_to_all_v(exchanged.data, traffic.received_bytes, rows.data,
                               traffic.sent_bytes);
  c.probe.output("rows", rows, 0);
}

}  // namespace dettax
