#include "harness/evidence/comparable.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "harness/base/text.h"

namespace dettax {
namespace {

// Of an environment what cannot change a bit by itself, or is what a comparison is about.
constexpr std::array<std::string_view, 4> kOnlyTold{"tool_version", "git_commit", "kernel",
                                                    "cpu_model"};

template <class T>
std::string differ(const std::string& what, const T& x, const T& y) {
  return fmt::format("{}: {} against {}", what, x, y);
}

// A case's name without what only says how it is laid out: t<threads>, dp<ranks>, m<micro-batch>.
std::string without_layout(const std::string& case_id) {
  std::vector<std::string> kept;
  for (const std::string& part : split(case_id, '.')) {
    const size_t digits = part.find_first_of("0123456789");
    const std::string axis = part.substr(0, digits);
    const bool counted = digits != std::string::npos &&
                         part.find_first_not_of("0123456789", digits) == std::string::npos;
    if (!(counted && (axis == "t" || axis == "dp" || axis == "m"))) kept.push_back(part);
  }
  return join(kept, ".");
}

std::string shorter(const LedgerHead& a, const LedgerHead& b) {
  return fmt::format("the first covers {} steps, the second {}: step {} is missing in the {}",
                     a.steps, b.steps, std::min(a.steps, b.steps),
                     a.steps < b.steps ? "first" : "second");
}

std::string shape_difference(const LedgerHead& a, const LedgerHead& b) {
  for (const auto& [name, value] : a.model) {
    const auto other = b.model.find(name);
    if (other == b.model.end() || other->second == value) continue;
    return differ("shape differs, the models are not the same: " + name, value, other->second);
  }
  return "";
}

struct SetupPart {
  std::string_view name, words;
};
constexpr std::array<SetupPart, 7> kSetupParts{
    SetupPart{"model", "another model"},
    {"precision", "another precision"},
    {"backend", "another backend"},
    {"batch", "another batch"},
    {"data", "other data"},
    {"optimizer", "another optimizer"},
    {"injections", "other faults injected"},
};

// "another optimizer: learning_rate: 0.0003 against 0.001"; parts that one ledger does not tell are not compared.
std::string setup_difference(const LedgerHead& a, const LedgerHead& b) {
  if (a.setup.empty() || b.setup.empty()) return "";
  std::map<std::string, std::string> names = a.setup;
  names.insert(b.setup.begin(), b.setup.end());
  const auto value = [](const LedgerHead& head, const std::string& name) {
    const auto found = head.setup.find(name);
    return found == head.setup.end() ? std::string("none") : found->second;
  };
  for (const SetupPart& part : kSetupParts) {
    std::vector<std::string> found;
    for (const auto& [name, unused] : names) {
      const std::string in_a = value(a, name), in_b = value(b, name);
      const std::string own = name.substr(0, name.find('.'));
      if (own != part.name || in_a == in_b) continue;
      found.push_back(differ(own == name ? own : name.substr(own.size() + 1), in_a, in_b));
    }
    if (!found.empty()) return fmt::format("{}: {}", part.words, join(found, "; "));
  }
  return "";
}

std::string cut_difference(const LedgerHead& a, size_t ranks_of_a, const LedgerHead& b,
                           size_t ranks_of_b) {
  const std::string environment = "different environment, not comparable bitwise: ";
  if (a.threads_per_rank != b.threads_per_rank)
    return differ(environment + "threads per rank", a.threads_per_rank, b.threads_per_rank);
  if (a.data_parallel != b.data_parallel)
    return differ(environment + "data-parallel ranks", a.data_parallel, b.data_parallel);
  if (a.micro_batch != b.micro_batch)
    return differ(environment + "micro-batch", a.micro_batch, b.micro_batch);
  if (ranks_of_a != ranks_of_b) return differ("another number of ranks", ranks_of_a, ranks_of_b);
  return "";
}

}  // namespace

EnvironmentDifferences environment_differences(const LedgerHead& a, const LedgerHead& b) {
  EnvironmentDifferences out;
  if (a.environment.empty() || b.environment.empty()) return out;
  std::map<std::string, std::string> names = a.environment;
  names.insert(b.environment.begin(), b.environment.end());
  const auto value = [](const LedgerHead& head, const std::string& name) {
    const auto found = head.environment.find(name);
    return found == head.environment.end() ? std::string("not set") : found->second;
  };
  for (const auto& [name, unused] : names) {
    const std::string in_a = value(a, name), in_b = value(b, name);
    if (in_a == in_b) continue;
    const bool told = std::ranges::find(kOnlyTold, name) != kOnlyTold.end();
    (told ? out.told : out.bits).push_back(differ(name, in_a, in_b));
  }
  return out;
}

std::string head_difference(const LedgerHead& a, size_t ranks_of_a, const LedgerHead& b,
                            size_t ranks_of_b, const CompareOptions& options) {
  const bool other_layout = options.allow_other_layout;
  if (const std::string shape = shape_difference(a, b); !shape.empty()) return shape;
  const bool same_case = other_layout ? without_layout(a.case_id) == without_layout(b.case_id)
                                      : a.case_id == b.case_id;
  if (!same_case) {
    // Threads alone are an environment, whatever else the name says.
    const bool only_cut = without_layout(a.case_id) == without_layout(b.case_id);
    const std::string cut = only_cut ? cut_difference(a, ranks_of_a, b, ranks_of_b) : "";
    return cut.empty() ? differ("another case", a.case_id, b.case_id) : cut;
  }
  if (a.mode_hash != b.mode_hash)
    return differ("another mode", a.mode + " " + a.mode_hash, b.mode + " " + b.mode_hash);
  if (a.seed != b.seed) return differ("another seed", a.seed, b.seed);
  if (const std::string setup = setup_difference(a, b); !setup.empty()) return setup;
  if (a.depth != b.depth)
    return differ("another depth, so that one lacks entries", to_string(a.depth),
                  to_string(b.depth));
  const EnvironmentDifferences environment = environment_differences(a, b);
  if (!environment.bits.empty() && !options.other_environment)
    return "different environment, not comparable bitwise: " + join(environment.bits, "; ");
  if (!other_layout) {
    const std::string cut = cut_difference(a, ranks_of_a, b, ranks_of_b);
    if (!cut.empty()) return cut;
  }
  if (a.steps != b.steps) return shorter(a, b);
  return "";
}

}  // namespace dettax
