#pragma once

#include <cstdint>
#include <vector>

#include "harness/train/step_context.h"

namespace dettax {

// How many rows of a micro-batch go from this rank's tokens to experts and come to the experts held here.
struct ExpertTraffic {
  int64_t sent = 0, received = 0;
  std::vector<int64_t> sent_bytes,
      received_bytes;  // by rank; empty where each rank has all experts
};

// Whether the experts of a layer are spread over ranks.
bool experts_spread(const StepContext& c);

// Once the plan of this rank's tokens is made: tells the ranks how many rows of each sample they get and lays out the rows that come
// here, those of an expert by sender and sample. Collective over the expert group. Fills segments, arrivals and departures.
void agree_on_rows(StepContext& c, const ExpertActivations& e);
// From what was laid out.
ExpertTraffic traffic_of(StepContext& c, const ExpertActivations& e);

// Rows of this rank's tokens to those of the experts here, and back. Collective over the expert group; only where experts are spread.
void send_to_experts(StepContext& c, Op op, const ExpertActivations& e,
                     const ExpertTraffic& traffic, const Tensor& rows, const Tensor& expert_rows);
void send_to_tokens(StepContext& c, Op op, const ExpertActivations& e, const ExpertTraffic& traffic,
                    const Tensor& expert_rows, const Tensor& rows);

}  // namespace dettax
