#include "harness/launch/node_list.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

// Far above any cluster: a longer list is a slip of the pen in a range.
constexpr size_t kMostNodes = 1'000'000;
constexpr size_t kMostDigits = 9;

[[noreturn]] void throw_bad(std::string_view text, const std::string& what) {
  throw Error(ErrorKind::config, fmt::format("node list \"{}\": {}; it must be like "
                                             "login1,gpu[007-009,12]",
                                             text, what));
}

std::optional<int> parse_number(std::string_view text) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, value);
  const bool plain = !text.empty() && text.size() <= kMostDigits && text.front() != '-';
  if (!plain || fault != std::errc() || rest != end) return std::nullopt;
  return value;
}

// Entries between the commas that stand outside brackets.
std::vector<std::string_view> entries_of(std::string_view text) {
  std::vector<std::string_view> entries;
  bool inside = false;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') {
      if (inside) throw_bad(text, "a bracket inside a bracket");
      inside = true;
    } else if (text[i] == ']') {
      if (!inside) throw_bad(text, "a bracket that was never opened");
      inside = false;
    } else if (text[i] == ',' && !inside) {
      entries.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  if (inside) throw_bad(text, "a bracket that is not closed");
  entries.push_back(text.substr(begin));
  return entries;
}

// The numbers of "007-009,12" as they are written.
std::vector<std::string> numbers_of(std::string_view range_list, std::string_view whole) {
  std::vector<std::string> numbers;
  for (const std::string& part : split(range_list, ',')) {
    const size_t dash = part.find('-');
    const std::string first = part.substr(0, dash);
    const auto low = parse_number(first);
    const auto high = dash == std::string::npos ? low : parse_number(part.substr(dash + 1));
    if (!low || !high) throw_bad(whole, fmt::format("\"{}\" is neither number nor range", part));
    if (*high < *low) throw_bad(whole, fmt::format("the range {} runs backwards", part));
    if (static_cast<size_t>(*high - *low) >= kMostNodes) {
      throw_bad(whole, fmt::format("the range {} holds too many", part));
    }
    for (int number = *low; number <= *high; ++number) {
      numbers.push_back(dash == std::string::npos
                            ? part
                            : fmt::format("{:0{}}", number, static_cast<int>(first.size())));
    }
  }
  return numbers;
}

// All names of one entry; the first bracket varies slowest.
std::vector<std::string> names_of(std::string_view entry, std::string_view whole) {
  std::vector<std::string> names = {""};
  const auto append = [&](const std::vector<std::string>& parts) {
    if (names.size() * parts.size() > kMostNodes) throw_bad(whole, "too many nodes");
    std::vector<std::string> longer;
    longer.reserve(names.size() * parts.size());
    for (const std::string& name : names) {
      for (const std::string& part : parts) longer.push_back(name + part);
    }
    names = std::move(longer);
  };
  while (!entry.empty()) {
    const size_t open = entry.find('[');
    append({std::string(entry.substr(0, open))});
    if (open == std::string_view::npos) break;
    const size_t close = entry.find(']', open);
    append(numbers_of(entry.substr(open + 1, close - open - 1), whole));
    entry.remove_prefix(close + 1);
  }
  return names;
}

void check_name(const std::string& name, std::string_view whole) {
  const bool fine = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
  });
  if (!fine) throw_bad(whole, fmt::format("\"{}\" is no host name", name));
}

}  // namespace

std::vector<std::string> expand_node_list(std::string_view text) {
  if (trim(text).empty()) throw_bad(text, "names no node");
  std::vector<std::string> nodes;
  for (const std::string_view entry : entries_of(text)) {
    for (std::string& name : names_of(trim(entry), text)) {
      check_name(name, text);
      nodes.push_back(std::move(name));
      if (nodes.size() > kMostNodes) throw_bad(text, "too many nodes");
    }
  }
  return nodes;
}

std::vector<int> expand_task_counts(std::string_view text) {
  const auto bad = [&](const std::string& part) {
    return Error(ErrorKind::config,
                 fmt::format("tasks per node \"{}\": \"{}\" is no count; it must be like 2(x3),1",
                             text, part));
  };
  std::vector<int> counts;
  for (const std::string& part : split(text, ',')) {
    const size_t open = part.find("(x");
    const auto tasks = parse_number(std::string_view(part).substr(0, open));
    std::optional<int> times = 1;
    if (open != std::string::npos) {
      if (part.back() != ')') throw bad(part);
      times = parse_number(std::string_view(part).substr(open + 2, part.size() - open - 3));
    }
    if (!tasks || !times || *tasks < 1 || *times < 1) throw bad(part);
    if (counts.size() + static_cast<size_t>(*times) > kMostNodes) throw bad(part);
    counts.insert(counts.end(), static_cast<size_t>(*times), *tasks);
  }
  return counts;
}

int tasks_on_node(const std::vector<int>& counts, int node) {
  if (node >= 0 && static_cast<size_t>(node) < counts.size()) {
    return counts[static_cast<size_t>(node)];
  }
  throw Error(ErrorKind::config,
              fmt::format("node {} of a job whose tasks are on {} nodes", node, counts.size()));
}

Seat seat_of_rank(const std::vector<int>& counts, int rank) {
  int first = 0;
  for (size_t node = 0; rank >= 0 && node < counts.size(); ++node) {
    if (rank < first + counts[node]) {
      return {static_cast<int>(node), rank - first, counts[node]};
    }
    first += counts[node];
  }
  throw Error(ErrorKind::config, fmt::format("rank {} of a job of {} ranks", rank, first));
}

}  // namespace dettax
