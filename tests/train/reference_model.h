#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/plan/case.h"

namespace dettax::reference {

using Values = std::map<std::string, std::vector<double>>;

// One whole global batch through the model in double precision, written from the equations and not from the trainer.
struct Result {
  double loss = 0;   // mean over all tokens
  Values gradients;  // by parameter name
};
// `sequences` are the samples of the global batch, sequence length + 1 tokens each.
Result loss_and_gradients(const Case& planned, const Values& weights,
                          const std::vector<std::vector<int32_t>>& sequences, uint64_t seed,
                          uint64_t step);

}  // namespace dettax::reference
