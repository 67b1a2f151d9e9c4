#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/base/text.h"
#include "harness/plan/suite.h"

namespace dettax {
namespace {

using Reason = std::optional<std::string>;

std::string words_of(const std::vector<Precision>& precisions) {
  std::vector<std::string> words;
  for (const Precision precision : precisions) words.emplace_back(to_string(precision));
  return join(words, ", ");
}

Reason unsupported_part(const Case& planned) {
  const auto usable = usable_precisions(planned.backend);
  if (std::find(usable.begin(), usable.end(), planned.precision) == usable.end()) {
    return fmt::format("precision {} is not available on the {} backend yet; use {}",
                       to_string(planned.precision), to_string(planned.backend), words_of(usable));
  }
  if (planned.model.latent_attention) {
    return fmt::format("model {} has latent attention, which is not available yet",
                       planned.model.name);
  }
  return std::nullopt;
}

// What a mixture of experts cannot be combined with yet.
Reason unsupported_experts(const Case& planned) {
  const Model& m = planned.model;
  if (!m.moe) return std::nullopt;
  const char* part = m.activation != Activation::swiglu ? "activation gelu"
                     : m.bias                           ? "biases"
                     : m.dropout > 0                    ? "dropout"
                                                        : nullptr;
  if (part != nullptr)
    return fmt::format("model {}: experts with {} are not available yet", m.name, part);
  // A block of rows that share a scale would hold rows of two experts.
  if (planned.precision == Precision::fp8_mx || planned.precision == Precision::nvfp4)
    return fmt::format("precision {}: experts are not available in it yet",
                       to_string(planned.precision));
  return std::nullopt;
}

Reason too_long(const Case& planned) {
  if (planned.batch.sequence_length > planned.model.context) {
    return fmt::format("batch.sequence_length {} is longer than the context {} of model {}",
                       planned.batch.sequence_length, planned.model.context, planned.model.name);
  }
  return std::nullopt;
}

// A scale from the largest magnitude of a whole tensor depends on which samples share a micro-batch, a block of rows on where samples
// end.
Reason not_invariant_precision(const Case& planned) {
  constexpr int64_t kMxBlock = 32;
  switch (planned.precision) {
    case Precision::fp8_cs:
    case Precision::fp8_ds:
    case Precision::nvfp4:
      return fmt::format(
          "precision {}: its scales belong to a micro-batch, bits cannot be invariant",
          to_string(planned.precision));
    case Precision::fp8_mx:
      if (planned.local_sequence_length() % kMxBlock == 0) return std::nullopt;
      return fmt::format("batch.sequence_length {}: invariant bits in fp8_mx need a multiple of {}",
                         planned.batch.sequence_length, kMxBlock * planned.layout.cp);
    default:
      return std::nullopt;
  }
}

// Invariant sums run over binary trees aligned at sample 0, which micro-batches and ranks must be
// whole subtrees of.
Reason not_invariant(const Case& planned, const Mode& mode) {
  const bool trees = mode.claims_invariant || mode.knobs.gemm == Order::invariant ||
                     mode.knobs.collectives == Order::invariant;
  if (!trees) return std::nullopt;
  const auto no_power = [](int64_t value) {
    return value < 1 || !std::has_single_bit(static_cast<uint64_t>(value));
  };
  if (Reason reason = not_invariant_precision(planned)) return reason;
  const char* rule = "invariant sums need a power of two";
  if (no_power(planned.batch.micro)) {
    return fmt::format("batch.micro {}: {}", planned.batch.micro, rule);
  }
  if (no_power(planned.layout.dp)) return fmt::format("layout.dp {}: {}", planned.layout.dp, rule);
  if (no_power(planned.micro_batches())) {
    return fmt::format("batch.global {} makes {} micro-batches a rank: {}", planned.batch.global,
                       planned.micro_batches(), rule);
  }
  if (planned.layout.ep > 1 && planned.micro_batches() > 1) {
    return fmt::format(
        "layout {}: experts see the samples of all ranks together; invariant sums need one "
        "micro-batch a rank, batch.global makes {}",
        to_string(planned.layout), planned.micro_batches());
  }
  return std::nullopt;
}

Reason too_large(const Case& planned, const Mode& mode, int64_t available_bytes) {
  if (planned.backend != Backend::cpu) return std::nullopt;  // a device says so itself
  const int64_t needed = estimate_memory(planned, mode).total();
  if (needed <= available_bytes) return std::nullopt;
  return fmt::format("needs about {} of memory, {} are available",
                     format_bytes(static_cast<double>(needed)),
                     format_bytes(static_cast<double>(available_bytes)));
}

}  // namespace

std::string emulation_note(const Case& planned) {
  if (planned.backend != Backend::cpu || planned.precision == Precision::fp32) return "";
  return fmt::format("{} is emulated: every number is rounded as it defines, and computed in fp32.",
                     to_string(planned.precision));
}

std::vector<Precision> usable_precisions(Backend backend) {
  if (backend == Backend::cuda) return {Precision::fp32, Precision::tf32};
  return {Precision::fp32,   Precision::tf32,   Precision::bf16,   Precision::fp16,
          Precision::fp8_cs, Precision::fp8_ds, Precision::fp8_mx, Precision::nvfp4};
}

std::optional<std::string> refusal(const Case& planned, const Mode& mode, int64_t available_bytes) {
  if (Reason reason = unsupported_part(planned)) return reason;
  if (Reason reason = unsupported_experts(planned)) return reason;
  if (Reason reason = layout_refusal(planned)) return reason;
  if (Reason reason = too_long(planned)) return reason;
  if (Reason reason = not_invariant(planned, mode)) return reason;
  return too_large(planned, mode, available_bytes);
}

}  // namespace dettax
