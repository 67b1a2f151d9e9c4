#include "results/analysis/projection/determinism_cost.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "harness/plan/suite.h"
#include "harness/plan/yaml_reader.h"

namespace dettax {
namespace {

CostRange read_range(MapReader& reader, const std::string& key) {
  MapReader keys(reader.require(key), reader.path(key));
  CostRange range;
  constexpr NumberRange kPositive{.low = 0, .low_open = true};
  for (const char* part : {"low", "likely", "high", "source"}) keys.require(part);
  keys.number("low", range.low, kPositive);
  keys.number("likely", range.likely, kPositive);
  keys.number("high", range.high, kPositive);
  keys.text("source", range.source);
  keys.finish();
  if (range.low > range.likely || range.likely > range.high)
    throw reader.fault(key, "must have low <= likely <= high");
  return range;
}

double value_of(const CostRange& range, double uniform) { return range.at(uniform); }

bool changed(const Mode& mode, const Mode& fast, Knob knob) {
  return knob_value(mode.knobs, knob) != knob_value(fast.knobs, knob);
}

// Algorithms that keep their order: what the mode tells NCCL, else rings, whose order is that of the ranks.
AlgorithmSet pinned(const Mode& mode) {
  const auto told = mode.environment.find("NCCL_ALGO");
  return told == mode.environment.end() ? AlgorithmSet::only(CollectiveAlgorithm::ring)
                                        : AlgorithmSet::named(told->second);
}

// Knobs whose cost the simulator does not know, being scalars or host work.
bool unpriced(Knob knob) {
  return knob == Knob::loss || knob == Knob::grad_norm || knob == Knob::schedule;
}

void set_collectives(DeterminismCost& cost, const Mode& mode, const DeterminismRanges& ranges,
                     double uniform) {
  cost.algorithms = pinned(mode);
  cost.collective_order = mode.knobs.collectives;
  cost.waits = true;
  if (mode.knobs.collectives == Order::invariant)
    cost.reduction_bytes_ratio = value_of(ranges.invariant_reduction, uniform);
}

void set_generic(DeterminismCost& cost, const DeterminismRanges& ranges, const FactorDraw& u) {
  cost.permute_ratio = std::max(cost.permute_ratio, value_of(ranges.generic_permute, u[4]));
  cost.embedding_backward_ratio =
      std::max(cost.embedding_backward_ratio, value_of(ranges.generic_embedding, u[3]));
}

void set_factor(DeterminismCost& cost, Knob knob, const Mode& mode, Generation generation,
                const DeterminismRanges& ranges, const FactorDraw& u) {
  switch (knob) {
    case Knob::attention:
      cost.attention_order = mode.knobs.attention;
      cost.attention_backward_ratio =
          value_of(ranges.attention_backward[static_cast<size_t>(generation)], u[0]);
      return;
    case Knob::gemm:
      cost.gemm_order = mode.knobs.gemm;
      cost.weight_product_ratio = value_of(ranges.weight_product, u[1]);
      cost.expert_weight_product_ratio = value_of(ranges.expert_weight_product, u[2]);
      return;
    case Knob::embedding:
      cost.embedding_backward_ratio = value_of(ranges.embedding_backward, u[3]);
      return;
    case Knob::moe:
      cost.permute_ratio = value_of(ranges.permute, u[4]);
      return;
    case Knob::norm:
      cost.norm_backward_ratio = value_of(ranges.norm_backward, u[5]);
      return;
    case Knob::collectives:
      set_collectives(cost, mode, ranges, u[6]);
      return;
    case Knob::memory_fill:
      cost.memory_fill = true;
      cost.fill_seconds = value_of(ranges.fill_seconds, u[7]);
      return;
    case Knob::index_ops:
      set_generic(cost, ranges, u);
      return;
    case Knob::overlap:
      cost.tensor_overlap = cost.data_overlap = cost.context_overlap = cost.send_overlap = false;
      return;
    case Knob::fused_loss:
      cost.fused_loss = false;
      return;
    case Knob::loss:
    case Knob::grad_norm:
    case Knob::schedule:
      return;
  }
}

}  // namespace

double CostRange::at(double uniform) const {
  if (high <= low) return likely;
  const double peak = (likely - low) / (high - low);
  if (uniform < peak) return low + std::sqrt(uniform * (high - low) * (likely - low));
  return high - std::sqrt((1 - uniform) * (high - low) * (high - likely));
}

DeterminismRanges load_determinism_ranges() {
  const std::string path =
      (std::filesystem::path(find_home()) / "configs/published/determinism.yaml").string();
  const Yaml node = read_yaml(path);
  MapReader reader(node, "");
  DeterminismRanges ranges;
  MapReader attention(reader.require("attention_backward"), "attention_backward");
  for (size_t g = 0; g < generation_words().size(); ++g)
    ranges.attention_backward[g] = read_range(attention, generation_words()[g]);
  attention.finish();
  ranges.weight_product = read_range(reader, "weight_product");
  ranges.expert_weight_product = read_range(reader, "expert_weight_product");
  ranges.embedding_backward = read_range(reader, "embedding_backward");
  ranges.generic_embedding = read_range(reader, "generic_embedding");
  ranges.permute = read_range(reader, "permute");
  ranges.generic_permute = read_range(reader, "generic_permute");
  ranges.norm_backward = read_range(reader, "norm_backward");
  ranges.invariant_reduction = read_range(reader, "invariant_reduction");
  ranges.fill_seconds = read_range(reader, "fill_seconds");
  reader.finish();
  return ranges;
}

std::vector<CostCause> cost_causes(const Mode& mode, const Mode& fast) {
  std::vector<CostCause> causes;
  for (const KnobInfo& info : knob_table()) {
    if (changed(mode, fast, info.knob) && !unpriced(info.knob))
      causes.push_back({std::string(info.name), info.part});
  }
  return causes;
}

DeterminismCost determinism_cost(const Mode& mode, const Mode& fast, Generation generation,
                                 const DeterminismRanges& ranges, const FactorDraw& uniforms,
                                 const std::string& only) {
  DeterminismCost cost;
  for (const KnobInfo& info : knob_table()) {
    if (!only.empty() && info.name != only) continue;
    if (changed(mode, fast, info.knob))
      set_factor(cost, info.knob, mode, generation, ranges, uniforms);
  }
  return cost;
}

}  // namespace dettax
