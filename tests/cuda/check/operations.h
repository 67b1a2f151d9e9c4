#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/cuda/check/side.h"

namespace dettax::test {

// One operation on made inputs, and what it is to be compared by.
struct CheckedOperation {
  std::string name;
  std::function<std::vector<Tensor>(Side&, SumOrder)> run;
  // Of the largest magnitude of a result; 0: the same bits as a CPU's.
  double tolerance = 0;
  bool has_orders = false;  // its sums can be in order of arrival
};

// Every operation of ops.h that a training step of one rank calls; shapes have odd sizes, `scale` makes them larger.
std::vector<CheckedOperation> checked_operations(int64_t scale);

}  // namespace dettax::test
