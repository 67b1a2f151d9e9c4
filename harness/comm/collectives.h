#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "harness/comm/algorithms.h"
#include "harness/comm/collective_settings.h"
#include "harness/comm/transport.h"

namespace dettax {

// All-reduce, reduce-scatter and all-gather by the algorithm chosen.
class Collectives {
 public:
  Collectives(Transport& transport, Algorithm algorithm);

  void all_reduce(float* data, int64_t count, Order order);
  void reduce_scatter(const float* in, float* out, int64_t count, Order order);
  void all_gather(const void* in, void* out, int64_t bytes);

  void abandon();  // as Transport's, from another thread
  void set_spin(bool spin);

 private:
  enum class Operation { all_reduce, reduce_scatter, all_gather };
  Algorithm way(Operation operation);
  Algorithm way_of_sum(Operation operation, Order order);
  Hierarchy& hierarchy();

  Transport& transport_;
  const Algorithm algorithm_;
  Scratch scratch_;
  bool spin_ = true;
  std::mutex mutex_;  // of what abandon() looks at
  bool abandoned_ = false;
  std::unique_ptr<Hierarchy> hierarchy_;  // from the first use on
};

}  // namespace dettax
