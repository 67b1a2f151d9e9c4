#include "harness/evidence/cause.h"

#include <array>

#include <fmt/format.h>

#include "harness/evidence/knob_places.h"

namespace dettax {
namespace {

struct LibrarySetting {
  Knob knob;
  std::string_view words;
};
constexpr std::array kLibrarySettings{
    LibrarySetting{
        Knob::collectives,
        "with NCCL the algorithm is pinned by NCCL_ALGO=Ring and in-switch sums are kept "
        "out by NCCL_NVLS_ENABLE=0"},
    LibrarySetting{Knob::attention,
                   "with FlashAttention it is deterministic=True, with Transformer Engine "
                   "NVTE_ALLOW_NONDETERMINISTIC_ALGO=0"},
    LibrarySetting{Knob::gemm, "with cuBLAS it takes CUBLAS_WORKSPACE_CONFIG=:4096:8"},
};

std::string advice_for(Knob knob) {
  const KnobInfo& info = knob_table().at(static_cast<size_t>(knob));
  std::string advice = fmt::format("knob {}: {} is to fix it", info.name, info.values.at(1));
  for (const LibrarySetting& setting : kLibrarySettings) {
    if (setting.knob == knob) advice += fmt::format("; {}", setting.words);
  }
  return advice;
}

}  // namespace

std::optional<Knob> ordering_knob(std::string_view path, std::string_view tensor) {
  for (const KnobInfo& info : knob_table()) {
    // A schedule has no sum of its own.
    if (info.part != TaxPart::ordering || info.knob == Knob::schedule) continue;
    const bool of_weights =
        info.knob == Knob::gemm || info.knob == Knob::norm || info.knob == Knob::embedding;
    if (acts_at(info.knob, path) && (!of_weights || tensor.ends_with(".grad"))) return info.knob;
  }
  return std::nullopt;
}

Cause cause_of(const LedgerComparison& comparison) {
  if (!comparison.first) return {};
  if (comparison.inputs_agreed) return {"collective order", advice_for(Knob::collectives)};
  if (comparison.accumulated)
    return {
        "accumulation precision",
        "what each micro-batch adds agrees and the sums differ from the second on: the gradients "
        "of micro-batches are added in another precision or order; with Megatron-LM it is "
        "accumulate_allreduce_grads_in_fp32"};
  const auto knob = ordering_knob(comparison.first->path, comparison.first->tensor);
  if (knob) return {fmt::format("order of sums: {}", knob_name(*knob)), advice_for(*knob)};
  return {"no order of sums",
          "nothing is summed there in an order to choose: another code path, memory that was not "
          "written, or the hardware"};
}

}  // namespace dettax
