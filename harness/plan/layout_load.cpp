#include <set>

#include <fmt/format.h>

#include "harness/base/parse_number.h"
#include "harness/base/text.h"
#include "harness/plan/loaders.h"
#include "harness/plan/yaml_reader.h"

namespace dettax {
namespace {

constexpr IntegerRange kAxis{1, 1'000'000};

const std::vector<std::string>& axis_names() {
  static const std::vector<std::string> names = {"dp", "tp", "pp", "vp", "cp", "ep"};
  return names;
}

int* axis_of(Layout& layout, const std::string& name) {
  if (name == "dp") return &layout.dp;
  if (name == "tp") return &layout.tp;
  if (name == "pp") return &layout.pp;
  if (name == "vp") return &layout.vp;
  if (name == "cp") return &layout.cp;
  return name == "ep" ? &layout.ep : nullptr;
}

// A part that is a word; false if it is none.
bool read_word_part(std::string_view part, Layout& layout) {
  if (part == "sp") return layout.sequence_parallel = true;
  if (part == "gpipe") {
    layout.schedule = PipelineSchedule::gpipe;
    return true;
  }
  if (part == "selective" || part == "full") {
    layout.recompute = part == "full" ? Recompute::full : Recompute::selective;
    return true;
  }
  return false;
}

// One part of dp2.tp4.sp.zero1; false if it is none.
bool read_layout_part(std::string_view part, Layout& layout) {
  if (read_word_part(part, layout)) return true;
  const size_t digit = part.find_first_of("0123456789");
  if (digit == std::string_view::npos) return false;
  int size = 0;
  if (!parse_number(part.substr(digit), size)) return false;
  const std::string name(part.substr(0, digit));
  if (name == "zero" && size <= 3) {
    layout.zero_stage = size;
    return true;
  }
  int* axis = axis_of(layout, name);
  if (axis == nullptr || size < 1 || size > kAxis.high) return false;
  *axis = size;
  return true;
}

Layout read_layout_map(const Yaml& node, const std::string& key) {
  Layout layout;
  MapReader reader(node, key);
  for (const std::string& name : axis_names()) reader.integer(name, *axis_of(layout, name), kAxis);
  reader.flag("sequence_parallel", layout.sequence_parallel);
  reader.integer("zero_stage", layout.zero_stage, {0, 3});
  if (layout.vp > 1) layout.schedule = PipelineSchedule::interleaved;
  reader.word("schedule", layout.schedule, schedule_words());
  reader.word("recompute", layout.recompute, recompute_words());
  reader.finish();
  return layout;
}

// What a part sets: dp of dp2, zero of zero1; one word for either way of recomputing.
std::string subject_of(const std::string& part) {
  if (part == "selective" || part == "full") return "recompute";
  return part.substr(0, part.find_first_of("0123456789"));
}

Layout read_layout_text(const Yaml& node, const std::string& key) {
  Layout layout;
  std::set<std::string> given;
  for (const std::string& part : split(read_text(node, key), '.')) {
    if (read_layout_part(part, layout)) {
      const std::string subject = subject_of(part);
      if (given.insert(subject).second) continue;
      throw config_error(
          node, key,
          fmt::format("{} is given twice in \"{}\"; once is right", subject, read_text(node, key)));
    }
    throw config_error(
        node, key,
        fmt::format("\"{}\" is no part of a layout; it must be like dp2.tp4.pp2.sp.zero1 (axes {}; "
                    "sp, zero1, zero3, gpipe, selective, full)",
                    part, join(axis_names(), ", ")));
  }
  if (layout.vp > 1 && layout.schedule == PipelineSchedule::one_f_one_b) {
    layout.schedule = PipelineSchedule::interleaved;
  }
  return layout;
}

// What contradicts itself whatever the model.
void check_layout(const Layout& layout, const Yaml& node, const std::string& key) {
  const auto fault = [&](const std::string& what) { throw config_error(node, key, what); };
  if (layout.dp % layout.ep != 0)
    fault(fmt::format("ep ({}) must divide dp ({})", layout.ep, layout.dp));
  if (layout.vp > 1 && layout.pp == 1)
    fault(fmt::format("vp ({}) needs a pipeline; pp is 1", layout.vp));
  if ((layout.schedule == PipelineSchedule::interleaved) != (layout.vp > 1)) {
    fault(fmt::format("schedule {} does not go with vp {}; interleaved needs vp 2 or more",
                      to_string(layout.schedule), layout.vp));
  }
  if (layout.sequence_parallel && layout.tp == 1)
    fault("sequence parallelism (sp) needs tensor parallelism; tp is 1");
  if (layout.zero_stage == 2) fault("zero stage 2 is not offered; use zero1 or zero3");
}

}  // namespace

const std::vector<std::string>& schedule_words() {
  static const std::vector<std::string> words = {"gpipe", "one_f_one_b", "interleaved"};
  return words;
}
const std::vector<std::string>& recompute_words() {
  static const std::vector<std::string> words = {"none", "selective", "full"};
  return words;
}

Layout read_layout(const Yaml& node, const std::string& key) {
  const Layout layout =
      node.kind == Yaml::Kind::map ? read_layout_map(node, key) : read_layout_text(node, key);
  check_layout(layout, node, key);
  return layout;
}

}  // namespace dettax
