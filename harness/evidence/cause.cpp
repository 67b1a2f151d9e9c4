#include "harness/evidence/cause.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "harness/base/text.h"
#include "harness/evidence/knob_places.h"
#include "harness/plan/claims.h"

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

void append_library_settings(std::string& advice, const std::vector<Knob>& knobs) {
  for (const LibrarySetting& setting : kLibrarySettings) {
    if (std::ranges::find(knobs, setting.knob) != knobs.end())
      advice += fmt::format("; {}", setting.words);
  }
}

std::string names_of(const std::vector<Knob>& knobs) {
  std::vector<std::string> names;
  for (const Knob knob : knobs) names.emplace_back(knob_name(knob));
  return join(names, ", ");
}

const char* change_in_words(BitsOver over) {
  switch (over) {
    case BitsOver::runs:
      return "from run to run";
    case BitsOver::threads:
      return "whatever the number of threads";
    case BitsOver::ranks:
      return "whatever the number of micro-batches and ranks";
  }
  return "";
}

// Those of the knobs whose values let the bits change, and the schedule where it does so through one of them.
std::vector<Knob> knobs_at_fault(const std::vector<Knob>& acting, const Knobs& knobs,
                                 BitsOver over) {
  std::vector<Knob> found;
  bool scheduled = false;
  for (const Knob knob : acting) {
    if (value_needed(knobs, knob, over)) found.push_back(knob);
    const bool reached = std::ranges::find(scheduled_knobs(), knob) != scheduled_knobs().end();
    scheduled = scheduled || (reached && order_of(knobs, knob) == Order::ordered);
  }
  if (scheduled && value_needed(knobs, Knob::schedule, over)) found.push_back(Knob::schedule);
  return found;
}

std::string what_to_set(const std::vector<Knob>& at_fault, const Knobs& knobs, BitsOver over) {
  std::vector<std::string> parts;
  for (const Knob knob : at_fault)
    parts.push_back(fmt::format("knob {} to {}", knob_name(knob),
                                value_needed(knobs, knob, over).value_or("")));
  return "set " + join(parts, " and ");
}

std::string no_knob_explains(const std::vector<Knob>& acting, const Knobs& knobs, BitsOver over) {
  std::vector<std::string> parts;
  for (const Knob knob : acting)
    parts.push_back(fmt::format("{} is {} already", knob_name(knob), knob_value(knobs, knob)));
  return fmt::format(
      "no knob explains it: {}, which is to keep these bits {}; what is left is the op itself, the "
      "library below it, memory or the hardware",
      join(parts, ", "), change_in_words(over));
}

Cause order_of_sums(const std::string& kind, const std::vector<Knob>& acting, const Knobs& knobs,
                    std::string_view scope) {
  const BitsOver over = bits_over(scope);
  const std::vector<Knob> at_fault = knobs_at_fault(acting, knobs, over);
  const std::vector<Knob>& named = at_fault.empty() ? acting : at_fault;
  Cause cause{kind.empty() ? "order of sums: " + names_of(named) : kind,
              at_fault.empty() ? no_knob_explains(acting, knobs, over)
                               : what_to_set(at_fault, knobs, over)};
  append_library_settings(cause.advice, named);
  const bool over_ranks = std::ranges::find(named, Knob::collectives) != named.end();
  if (over_ranks && scope == "other_allocation")
    cause.advice +=
        "; the order follows where ranks are: keep the same rank on the same device of the same "
        "node, with NCCL in one stored graph (NCCL_GRAPH_FILE)";
  return cause;
}

// Sums over samples behind the gradient of a parameter; a tied table also is the head.
bool sums_into(Knob knob, std::string_view gradient) {
  const bool table =
      gradient.find("embedding") != gradient.npos || gradient.find("position") != gradient.npos;
  const bool norm = gradient.find("norm") != gradient.npos;
  if (knob == Knob::embedding) return table;
  if (knob == Knob::norm) return norm;
  return knob == Knob::gemm && !norm;
}

bool behind_whole_step(Knob knob, std::string_view path, std::string_view tensor, BitsOver over) {
  const bool result = path == "result" || path == "state";
  if (result && tensor == "loss") return knob == Knob::loss || knob == Knob::collectives;
  if (result) return knob != Knob::loss && knob != Knob::attention;
  return over == BitsOver::ranks && path.ends_with("reduce/gradients") && sums_into(knob, tensor);
}

// What is known by its place alone, whatever the knobs: something went in that was another.
std::optional<Cause> another_input(const LedgerEntry& first) {
  const auto has = [&](std::string_view part) { return first.tensor.find(part) != part.npos; };
  if (first.path == "state" && (has("random.") || has("data.")))
    return has("random.") ? Cause{"RNG position",
                                  "the generators stood elsewhere: give both runs one seed, and "
                                  "save and restore every generator's position with the state"}
                          : Cause{"data order",
                                  "the runs stood at other samples: save and restore the data "
                                  "position with the state"};
  if (first.path == "state" && first.step < 0)
    return Cause{
        "initial weights",
        "the runs began with other weights: load one seed checkpoint, or draw every weight "
        "from (seed, parameter, index in the whole tensor) before it is sharded"};
  if (first.path.ends_with("/data"))
    return Cause{"data order",
                 "the runs read other tokens: fix seed, shuffle and data position, and how samples "
                 "are dealt to ranks and micro-batches"};
  if (has("random.position") || first.path.ends_with("dropout"))
    return Cause{"RNG position",
                 "another mask was drawn: the op's generator stood elsewhere; under recomputation "
                 "its position must be saved in the forward pass and restored"};
  return std::nullopt;
}

// An entry without a partner has no bits to explain.
std::optional<Cause> missing_entry(const LedgerComparison& comparison) {
  if (comparison.torn && (!comparison.first || comparison.step_missing))
    return Cause{"cut off",
                 "one of the two files ends early, for its run was stopped or its disk full: let "
                 "both runs end"};
  if (!comparison.first) return std::nullopt;
  if (comparison.step_missing)
    return Cause{"missing steps",
                 "one of the two has nothing of that step on that rank: let both runs write every "
                 "step"};
  const LedgerEntry& first = *comparison.first;
  const auto has = [&](std::string_view part) { return first.tensor.find(part) != part.npos; };
  const bool other_bounds = has("bounds before") || (comparison.structural &&
                                                     first.path.find("reduce/") != first.path.npos);
  if (other_bounds)
    return Cause{"bucket layout",
                 "gradients are summed in other buckets, so that sums are cut elsewhere: fix the "
                 "buckets' size and order, which with Megatron-LM grows with the number of "
                 "data-parallel ranks (--ddp-bucket-size)"};
  if (comparison.structural)
    return Cause{"missing entries",
                 "the two did not show the same operations in the same order: another build, or "
                 "another way through the program"};
  return std::nullopt;
}

}  // namespace

std::vector<Knob> ordering_knobs(std::string_view path, std::string_view tensor, BitsOver over) {
  std::vector<Knob> knobs;
  for (const KnobInfo& info : knob_table()) {
    // A schedule has no sum of its own.
    if (info.part != TaxPart::ordering || info.knob == Knob::schedule) continue;
    const bool of_weights =
        info.knob == Knob::gemm || info.knob == Knob::norm || info.knob == Knob::embedding;
    const bool here = acts_at(info.knob, path) && (!of_weights || tensor.ends_with(".grad"));
    if (here || behind_whole_step(info.knob, path, tensor, over)) knobs.push_back(info.knob);
  }
  return knobs;
}

std::vector<Knob> absent_knobs(const LedgerHead& head, size_t ranks) {
  std::vector<Knob> absent;
  const auto experts = head.model.find("experts");  // a head that lacks it tells nothing of them
  if (experts != head.model.end() && experts->second == 0) absent.push_back(Knob::moe);
  if (ranks == 1) absent.push_back(Knob::collectives);
  return absent;
}

Cause cause_of(const LedgerComparison& comparison, const Knobs& knobs, std::string_view scope,
               const std::vector<Knob>& absent) {
  if (auto missing = missing_entry(comparison)) return *missing;
  if (!comparison.first) return {};
  const BitsOver over = bits_over(scope);
  if (auto input = another_input(*comparison.first)) return *input;
  if (comparison.inputs_agreed)
    return order_of_sums("collective order", {Knob::collectives}, knobs, scope);
  // What was computed before it in between was not looked at.
  if (comparison.depth != LedgerDepth::op)
    return {fmt::format("not told at depth {}", to_string(comparison.depth)),
            "the op lies between this entry and the one before it: run both again with --depth op "
            "(evidence.depth: op)"};
  if (comparison.accumulated)
    return {
        "accumulation precision",
        "what each micro-batch adds agrees and the sums differ from the second on: the gradients "
        "of micro-batches are added in another precision or order; with Megatron-LM it is "
        "accumulate_allreduce_grads_in_fp32"};
  if (comparison.gradients_agreed && over != BitsOver::ranks)
    return {"no order of sums",
            "the update of a parameter differs though its gradient and all in front of it agreed: "
            "another optimizer or learning rate, memory that was not written, or the hardware"};
  std::vector<Knob> acting = ordering_knobs(comparison.first->path, comparison.first->tensor, over);
  std::erase_if(acting, [&](Knob knob) { return std::ranges::find(absent, knob) != absent.end(); });
  if (!acting.empty()) return order_of_sums("", acting, knobs, scope);
  return {"no order of sums",
          "nothing is summed there in an order to choose: another code path, memory that was not "
          "written, or the hardware"};
}

}  // namespace dettax
