#include "harness/train/expert_counts.h"

namespace dettax {
namespace {

// A rank has two pieces of each sample (harness/train/context_parallel.h): choices of each expert in each of them, [samples, 2, experts].
std::vector<int32_t> count_here(StepContext& c, const ExpertActivations& e) {
  const Tensor& chosen = e.experts;
  std::vector<int32_t> experts(static_cast<size_t>(chosen.count()));
  c.device.copy_to_host(experts.data(), chosen.data, experts.size() * sizeof(int32_t));
  const auto of_a_piece = static_cast<size_t>(c.tokens / 2 * chosen.columns());
  const auto kinds = static_cast<size_t>(c.expert_sizes.experts);
  std::vector<int32_t> counts(2 * static_cast<size_t>(c.samples) * kinds);
  for (size_t i = 0; i < experts.size(); ++i)
    ++counts[i / of_a_piece * kinds + static_cast<size_t>(experts[i])];
  return counts;
}

}  // namespace

std::vector<int32_t> count_over_context(StepContext& c, const ExpertActivations& e) {
  Communicator& group = c.mesh.context();
  const std::vector<int32_t> here = count_here(c, e);
  const auto ranks = static_cast<size_t>(group.size());
  std::vector<int32_t> all(here.size() * ranks);
  c.begin(Op::expert_counts);
  group.all_gather(here.data(), all.data(), static_cast<int64_t>(here.size() * sizeof(int32_t)));
  const auto kinds = static_cast<size_t>(c.expert_sizes.experts);
  const auto samples = static_cast<size_t>(c.samples);
  const auto own = static_cast<size_t>(group.rank());
  std::vector<int32_t> before(here.size());
  std::vector<int32_t> total(samples * kinds);
  // Pieces in the order of the sequence: the first of each rank, then the second of each from the last rank on.
  for (size_t piece = 0; piece < 2 * ranks; ++piece) {
    const bool second = piece >= ranks;
    const size_t rank = second ? 2 * ranks - 1 - piece : piece;
    for (size_t s = 0; s < samples; ++s) {
      const size_t line = (2 * s + (second ? 1 : 0)) * kinds;
      for (size_t k = 0; k < kinds; ++k) {
        if (rank == own) before[line + k] = total[s * kinds + k];
        total[s * kinds + k] += all[rank * here.size() + line + k];
      }
    }
  }
  const Tensor& to = c.buffers.experts.before;
  c.device.copy_from_host(to.data, before.data(), before.size() * sizeof(int32_t));
  c.probe.output("before", to, 0);
  return total;
}

}  // namespace dettax
