#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace dettax {

// One cause of nondeterminism, or one side effect of a deterministic mode, that can be turned
// alone.
enum class Knob {
  gemm,
  attention,
  embedding,
  norm,
  loss,
  moe,
  grad_norm,
  collectives,
  schedule,  // ordering
  memory_fill,
  index_ops,  // framework
  overlap,
  fused_loss,  // opportunity
};
inline constexpr int kKnobCount = 13;

// How the contributions to a sum are ordered.
//  arrival    as threads, blocks or ranks finish: may differ from run to run
//  ordered    fixed for this layout: same bits again on the same number of threads, rows and ranks
//  invariant  fixed by the logical sample: same bits whatever the threads, micro-batches and
//  data-parallel ranks
enum class Order { arrival, ordered, invariant };

// The values of all knobs. A knob's value is named in files as the table `knob_table` says.
struct Knobs {
  Order gemm = Order::arrival;
  Order attention = Order::arrival;
  Order embedding = Order::arrival;
  Order norm = Order::arrival;
  Order loss = Order::arrival;
  Order moe = Order::arrival;
  Order grad_norm = Order::arrival;
  Order collectives = Order::arrival;
  bool dynamic_schedule = true;    // schedule: dynamic | static
  bool memory_fill = false;        // memory_fill: off | on
  bool generic_index_ops = false;  // index_ops: purpose_built | generic
  bool overlap = true;             // overlap: on | off
  bool fused_loss = true;          // fused_loss: on | off

  friend bool operator==(const Knobs&, const Knobs&) = default;
};

// One row of the catalog of knobs: its name, the part of the tax it belongs to, and the names of
// its values, fast first.
enum class TaxPart { ordering, framework, opportunity };
std::string_view part_word(TaxPart part);
struct KnobInfo {
  Knob knob;
  std::string_view name;
  TaxPart part;
  std::vector<std::string_view> values;
  std::string_view what;  // one line for people
};
const std::vector<KnobInfo>& knob_table();

// Throws Error{config} naming the nearest right word when the knob or the value does not exist.
void set_knob(Knobs& knobs, std::string_view name, std::string_view value);
std::string knob_value(const Knobs& knobs, Knob knob);
// The order of an ordering knob other than the schedule. One without a value of its own for `invariant` is invariant when ordered.
Order order_of(const Knobs& knobs, Knob knob);
std::string_view knob_name(Knob knob);
Knob knob_named(std::string_view name);

}  // namespace dettax
