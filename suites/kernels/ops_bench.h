#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/device/cpu/cpu_ops.h"
#include "suites/kernels/step_shape.h"

// Benchmarks of the operations of the CPU other than the products of linear layers, variants side by
// side, in the shapes of the step benchmarks. Tensors are taken in turn from copies that together do
// not fit the caches, as in a step. The counter `calls` is how often a step makes the call: calls times
// time is its share.
namespace dettax {

// A tensor of which next() gives another copy each time.
class Cold {
 public:
  Cold(int64_t rows, int64_t columns, int64_t cold_bytes);
  Tensor next();

 private:
  int64_t rows_, columns_, copies_, turn_ = 0;
  Buffer memory_;
};
std::shared_ptr<Cold> cold(int64_t rows, int64_t columns);
// One copy, for what is small enough to stay in the caches during a step.
std::shared_ptr<Cold> warm(int64_t rows, int64_t columns);

// Token ids of the shape's rows. Their logarithm is uniform: a Zipf distribution with exponent 1.
std::shared_ptr<std::vector<int32_t>> zipf_ids(const StepShape& s);
Tensor tensor(std::vector<int32_t>& ids);

// What a benchmark runs: one call, its bytes (read and written, each once) and floating-point
// operations, if these say more, and how many calls a step makes (0: not told).
struct Work {
  std::function<void()> call;
  int64_t bytes = 0;
  int64_t calls = 0;
  double flops = 0;
};
using MakeWork = std::function<Work(CpuOps& ops, const SumOrder& sum)>;

void add_benchmark(const std::string& name, const MakeWork& make, const SumOrder& sum = {});
// One for each order of summation.
void add_variants(const std::string& name, const MakeWork& make);
// The same for an operation whose invariant variant is the ordered one.
void add_arrival_and_ordered(const std::string& name, const MakeWork& make);

void add_attention(const StepShape& s);
void add_elementwise(const StepShape& s);
void add_embedding(const StepShape& s);
void add_experts(const StepShape& s);
void add_head(const StepShape& s);
void add_loss(const StepShape& s);
void add_norm(const StepShape& s);
void add_optimizer(const StepShape& s);

}  // namespace dettax
