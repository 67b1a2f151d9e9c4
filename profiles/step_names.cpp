#include "profiles/step_names.h"

#include <array>
#include <charconv>
#include <string>

namespace dettax {
namespace {

// "<name><separators><number>"; the case of the first letter does not matter.
std::optional<int64_t> number_behind(std::string_view text, std::string_view name) {
  if (text.size() <= name.size() || (text[0] | 0x20) != (name[0] | 0x20) ||
      text.substr(1, name.size() - 1) != name.substr(1))
    return std::nullopt;
  text.remove_prefix(name.size());
  while (!text.empty() && std::string_view(" _#:=-").find(text.front()) != std::string_view::npos)
    text.remove_prefix(1);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
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

}  // namespace dettax
