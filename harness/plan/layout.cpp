#include "harness/plan/layout.h"

#include <fmt/format.h>

namespace dettax {
namespace {

std::string axis(const char* name, int size) {
  return size == 1 ? std::string() : fmt::format(".{}{}", name, size);
}

}  // namespace

std::string to_string(const Layout& layout) {
  std::string text = axis("dp", layout.dp) + axis("tp", layout.tp) + axis("pp", layout.pp) +
                     axis("vp", layout.vp) + axis("cp", layout.cp) + axis("ep", layout.ep);
  if (text.empty()) text = ".dp1";
  if (layout.sequence_parallel) text += ".sp";
  if (layout.zero_stage > 0) text += fmt::format(".zero{}", layout.zero_stage);
  if (layout.schedule == PipelineSchedule::gpipe) text += ".gpipe";
  if (layout.recompute != Recompute::none) text += fmt::format(".{}", to_string(layout.recompute));
  return text.substr(1);
}

const char* to_string(PipelineSchedule schedule) {
  switch (schedule) {
    case PipelineSchedule::gpipe:
      return "gpipe";
    case PipelineSchedule::one_f_one_b:
      return "one_f_one_b";
    case PipelineSchedule::interleaved:
      return "interleaved";
  }
  return "?";
}

const char* to_string(Recompute recompute) {
  switch (recompute) {
    case Recompute::none:
      return "none";
    case Recompute::selective:
      return "selective";
    case Recompute::full:
      return "full";
  }
  return "?";
}

}  // namespace dettax
