#include "profiles/step_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

constexpr std::string_view kSeparators = " _#:=-";

// "<name><separators><number>"; the case of the first letter does not matter.
std::optional<int64_t> number_behind(std::string_view text, std::string_view name) {
  if (text.size() <= name.size() || (text[0] | 0x20) != (name[0] | 0x20) ||
      text.substr(1, name.size() - 1) != name.substr(1))
    return std::nullopt;
  text.remove_prefix(name.size());
  while (!text.empty() && kSeparators.find(text.front()) != std::string_view::npos)
    text.remove_prefix(1);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

// Empty where no number ends the text.
std::string_view in_front_of_number(std::string_view text) {
  const size_t digits = text.find_last_not_of("0123456789") + 1;
  if (digits == 0 || digits == text.size()) return {};
  return text.substr(0, text.find_last_not_of(kSeparators, digits - 1) + 1);
}

}  // namespace

std::optional<int64_t> step_index_of(std::string_view range_name, std::string_view step_name) {
  static constexpr std::array<std::string_view, 6> kCommon{
      "ProfilerStep", "train_step", "training_step", "step", "iteration", "iter"};
  if (!step_name.empty()) return number_behind(range_name, step_name);
  for (const std::string_view name : kCommon) {
    if (const auto number = number_behind(range_name, name)) return number;
  }
  return std::nullopt;
}

std::optional<int64_t> StepFinder::index_of(std::string_view range_name) {
  const auto index = step_index_of(range_name, step_name_);
  found_ = found_ || index;
  if (index || step_name_.empty()) return index;
  const std::string_view other = in_front_of_number(range_name);
  if (!other.empty() && !others_.contains(other)) others_.emplace(other);
  return std::nullopt;
}

void StepFinder::require_found(const std::string& source) const {
  if (found_ || step_name_.empty()) return;
  constexpr size_t kShown = 8;
  std::vector<std::string> names(others_.begin(), others_.end());
  // What would be taken for steps without being asked for stands in front.
  std::ranges::stable_partition(
      names, [](const std::string& name) { return step_index_of(name + "0", "").has_value(); });
  const size_t more = names.size() - std::min(names.size(), kShown);
  names.resize(names.size() - more);
  if (more > 0) names.push_back(fmt::format("{} more", more));
  throw Error(ErrorKind::usage,
              fmt::format("--step {}: {} marks no such step; {}", step_name_, source,
                          names.empty() ? "none of its ranges ends in a number"
                                        : "it has, with a number behind: " + join(names, ", ")));
}

}  // namespace dettax
