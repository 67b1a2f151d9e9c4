#include "harness/plan/knobs.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

Order* order_slot(Knobs& knobs, Knob knob) {
  switch (knob) {
    case Knob::gemm:
      return &knobs.gemm;
    case Knob::attention:
      return &knobs.attention;
    case Knob::embedding:
      return &knobs.embedding;
    case Knob::norm:
      return &knobs.norm;
    case Knob::loss:
      return &knobs.loss;
    case Knob::moe:
      return &knobs.moe;
    case Knob::grad_norm:
      return &knobs.grad_norm;
    case Knob::collectives:
      return &knobs.collectives;
    default:
      return nullptr;
  }
}

bool* switch_of(Knobs& knobs, Knob knob) {
  switch (knob) {
    case Knob::schedule:
      return &knobs.dynamic_schedule;
    case Knob::memory_fill:
      return &knobs.memory_fill;
    case Knob::index_ops:
      return &knobs.generic_index_ops;
    case Knob::overlap:
      return &knobs.overlap;
    case Knob::fused_loss:
      return &knobs.fused_loss;
    default:
      return nullptr;
  }
}

// What a switch holds at the first name of its values in the table, the fast one.
bool fast_state(Knob knob) {
  return knob == Knob::schedule || knob == Knob::overlap || knob == Knob::fused_loss;
}

const KnobInfo& info_of(std::string_view name) {
  std::vector<std::string> names;
  for (const KnobInfo& info : knob_table()) {
    if (info.name == name) return info;
    names.emplace_back(info.name);
  }
  throw Error(ErrorKind::config,
              fmt::format("knob \"{}\" does not exist{}", name, did_you_mean(name, names)));
}

size_t value_index(const KnobInfo& info, std::string_view value) {
  std::vector<std::string> values;
  for (size_t i = 0; i < info.values.size(); ++i) {
    if (info.values[i] == value) return i;
    values.emplace_back(info.values[i]);
  }
  throw Error(ErrorKind::config, fmt::format("knob {} has no value \"{}\"; it is one of {}",
                                             info.name, value, join(values, ", ")));
}

}  // namespace

std::string_view part_word(TaxPart part) {
  switch (part) {
    case TaxPart::ordering:
      return "ordering";
    case TaxPart::framework:
      return "framework";
    case TaxPart::opportunity:
      return "opportunity";
  }
  return "";
}

const std::vector<KnobInfo>& knob_table() {
  using enum TaxPart;
  static const std::vector<KnobInfo> table = {
      {Knob::gemm,
       "gemm",
       ordering,
       {"arrival", "ordered", "invariant"},
       "order in which partial weight gradients of a matrix multiplication are added"},
      {Knob::attention,
       "attention",
       ordering,
       {"arrival", "ordered"},
       "order in which key blocks add to dQ in the attention backward pass"},
      {Knob::embedding,
       "embedding",
       ordering,
       {"atomic", "ordered", "invariant"},
       "order in which rows of equal tokens are added in the embedding backward pass"},
      {Knob::norm,
       "norm",
       ordering,
       {"arrival", "ordered", "invariant"},
       "order in which partial gradients of norm weights are merged"},
      {Knob::loss,
       "loss",
       ordering,
       {"arrival", "ordered", "invariant"},
       "order in which token losses are summed"},
      {Knob::moe,
       "moe",
       ordering,
       {"atomic", "ordered", "invariant"},
       "order in which tokens claim rows of experts and their results are added"},
      {Knob::grad_norm,
       "grad_norm",
       ordering,
       {"arrival", "ordered", "invariant"},
       "order in which squares are summed to the global gradient norm"},
      {Knob::collectives,
       "collectives",
       ordering,
       {"arrival", "rank_order", "invariant"},
       "order in which ranks are added in a reduction"},
      {Knob::schedule,
       "schedule",
       ordering,
       {"dynamic", "static"},
       "whether work is handed out to threads dynamically or by a fixed partition"},
      {Knob::memory_fill,
       "memory_fill",
       framework,
       {"off", "on"},
       "whether every new buffer is filled before use"},
      {Knob::index_ops,
       "index_ops",
       framework,
       {"purpose_built", "generic"},
       "whether index operations are kernels of their own or sort-and-accumulate"},
      {Knob::overlap,
       "overlap",
       opportunity,
       {"on", "off"},
       "whether communication overlaps computation"},
      {Knob::fused_loss,
       "fused_loss",
       opportunity,
       {"on", "off"},
       "whether output projection and cross-entropy are fused in chunks"},
  };
  return table;
}

std::string_view knob_name(Knob knob) { return knob_table().at(static_cast<size_t>(knob)).name; }

Knob knob_named(std::string_view name) { return info_of(name).knob; }

void set_knob(Knobs& knobs, std::string_view name, std::string_view value) {
  const KnobInfo& info = info_of(name);
  const size_t index = value_index(info, value);
  if (Order* order = order_slot(knobs, info.knob)) {
    *order = static_cast<Order>(index);
  } else {
    *switch_of(knobs, info.knob) = index == 0 ? fast_state(info.knob) : !fast_state(info.knob);
  }
}

Order order_of(const Knobs& knobs, Knob knob) {
  Knobs copy = knobs;
  const auto strongest =
      static_cast<Order>(knob_table().at(static_cast<size_t>(knob)).values.size() - 1);
  return std::min(*order_slot(copy, knob), strongest);
}

std::string knob_value(const Knobs& knobs, Knob knob) {
  Knobs copy = knobs;
  const KnobInfo& info = knob_table().at(static_cast<size_t>(knob));
  if (order_slot(copy, knob) != nullptr)
    return std::string(info.values[static_cast<size_t>(order_of(knobs, knob))]);
  return std::string(info.values[*switch_of(copy, knob) == fast_state(knob) ? 0 : 1]);
}

}  // namespace dettax
