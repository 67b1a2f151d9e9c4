#pragma once

#include "results/analysis/projection/op_cost.h"

namespace dettax {

// Seconds that one micro-batch's traffic of one layer takes, nothing hidden.
struct TensorTraffic {
  double forward = 0;
  double backward = 0;       // what the next product waits for
  double backward_bulk = 0;  // beside products that do not wait for it
};
TensorTraffic tensor_traffic(const Situation& situation);
// Keys and values of the other ranks' tokens, each step of a ring beside the attention of the one before.
double context_traffic(const Situation& situation);
// To the experts and back, once each way. A token goes to a domain once, whatever number of its experts are there.
double expert_traffic(const Situation& situation);

// What stays of traffic beside work that hides a share of itself, and what hidden traffic costs that work.
double exposed_traffic(const Situation& situation, double traffic, double work);

}  // namespace dettax
