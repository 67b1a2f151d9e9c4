#include "results/analysis/projection/op_table.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/plan/loaders.h"
#include "results/analysis/csv.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

std::string group_key(std::string_view op, const GroupShape& group) {
  return fmt::format("{}@{}.{}", op, group.ranks, group.per_domain);
}

std::string key_of(std::string_view op, std::string_view precision, std::string_view mode) {
  return fmt::format("{}/{}/{}", op, precision, mode);
}

// What the simulator asks a table for.
const std::vector<std::string>& known_ops() {
  static const std::vector<std::string> ops = [] {
    std::vector<std::string> all = {"gemm",
                                    "weight_product",
                                    "attention_forward",
                                    "attention_backward",
                                    "elementwise",
                                    "embedding_backward",
                                    "rms_norm_backward",
                                    "layer_norm_backward",
                                    "expert_unpermute",
                                    "expert_linear_backward_weight"};
    all.insert(all.end(), kCollectiveWords.begin(), kCollectiveWords.end());
    return all;
  }();
  return ops;
}

void require_word(const CsvTable& csv, size_t row, const char* column,
                  const std::vector<std::string>& words) {
  const std::string& word = csv.text(row, column);
  if (std::find(words.begin(), words.end(), word) != words.end()) return;
  throw Error(ErrorKind::config, fmt::format("{}: {}: must be one of {}, not \"{}\"",
                                             csv.place(row), column, join(words, ", "), word));
}

// Far from what a kernel or message can take, and products of three stay finite.
double need_within(const CsvTable& csv, size_t row, const char* column, double most) {
  const double value = csv.need_number(row, column);
  if (value > 0 && value <= most) return value;
  throw Error(ErrorKind::config, fmt::format("{}: {}: must be above 0 and at most {:g}, not {:g}",
                                             csv.place(row), column, most, value));
}

}  // namespace

std::string_view order_word(Order order) {
  if (order == Order::arrival) return "fast";
  return order == Order::ordered ? "ordered" : "invariant";
}

bool is_collective(std::string_view op) {
  return std::ranges::find(kCollectiveWords, op) != kCollectiveWords.end();
}

double op_work(std::string_view op, double m, double n, double k) {
  if (op == "attention_backward") return 5 * m * n * k;
  if (op == "gemm" || op == "weight_product" || op == "attention_forward") return 2 * m * n * k;
  return m * n * k;
}

OpTable OpTable::read(const std::string& path) {
  if (std::filesystem::is_directory(path))
    throw Error(ErrorKind::config,
                path + ": is a folder; it must be a file of CSV or JSON, or a run");
  if (!path.ends_with(".json")) return read_csv(path);
  const std::string text = read_file(path);
  // A record has no such member on its outer level, and nothing else by that name.
  if (text.find("\"benchmarks\"") != std::string::npos) return read_benchmark_json(path);
  return of_records({parse_record(text, path)}, path);
}

OpTable OpTable::read_csv(const std::string& path) {
  const CsvTable csv = CsvTable::read(path);
  OpTable table;
  for (size_t row = 0; row < csv.rows(); ++row) {
    const std::string& op = csv.text(row, "op");
    const auto positive = [&](const char* column) { return need_within(csv, row, column, 1e18); };
    const double seconds = need_within(csv, row, "seconds", 1e6);
    require_word(csv, row, "mode", {"fast", "ordered", "invariant", "generic"});
    if (is_collective(op)) {
      const GroupShape group{std::llround(positive("n")), std::llround(positive("k"))};
      if (group.ranks < 2 || group.per_domain < 1 || group.per_domain > group.ranks)
        throw Error(ErrorKind::config,
                    fmt::format("{}: n and k: need 2 ranks or more, and k from 1 to n of them in "
                                "one domain",
                                csv.place(row)));
      table.add_collective(op, csv.text(row, "mode"), group, positive("m"), seconds);
      continue;
    }
    require_word(csv, row, "op", known_ops());
    require_word(csv, row, "precision", precision_words());
    const double work = op_work(op, positive("m"), positive("n"), positive("k"));
    table.add(op, csv.text(row, "precision"), csv.text(row, "mode"), work, seconds);
  }
  if (table.empty()) throw Error(ErrorKind::config, path + ": holds no readings");
  return table;
}

void OpTable::add(const std::string& op, const std::string& precision, const std::string& mode,
                  double work, double seconds) {
  const auto [place, fresh] = readings_[key_of(op, precision, mode)].try_emplace(work, seconds);
  if (!fresh) place->second = std::min(place->second, seconds);
}

void OpTable::add_collective(const std::string& op, const std::string& mode,
                             const GroupShape& group, double bytes, double seconds) {
  add(group_key(op, group), "", mode, bytes, seconds);
  std::vector<GroupShape>& known = groups_[op];
  const bool seen = std::any_of(known.begin(), known.end(), [&](const GroupShape& one) {
    return one.ranks == group.ranks && one.per_domain == group.per_domain;
  });
  if (!seen) known.push_back(group);
}

std::vector<GroupShape> OpTable::groups(std::string_view op) const {
  const auto found = groups_.find(op);
  return found == groups_.end() ? std::vector<GroupShape>{} : found->second;
}

std::optional<double> OpTable::collective_seconds(std::string_view op, std::string_view mode,
                                                  const GroupShape& group, double bytes) const {
  const std::string key = group_key(op, group);
  const auto fast = seconds(key, "", "fast", bytes);
  if (!fast) {
    if (const auto ordered = seconds(key, "", "ordered", bytes)) return ordered;
    return seconds(key, "", "invariant", bytes);
  }
  const auto own = seconds(key, "", mode, bytes);
  return own ? own : fast;
}

std::optional<double> OpTable::ratio(std::string_view op, std::string_view precision,
                                     std::string_view variant, std::string_view against) const {
  const auto one = readings_.find(key_of(op, precision, variant));
  const auto other = readings_.find(key_of(op, precision, against));
  if (one == readings_.end() || other == readings_.end()) return std::nullopt;
  double sum = 0;
  int count = 0;
  for (const auto& [work, seconds] : one->second) {
    const auto same = other->second.find(work);
    if (same == other->second.end()) continue;
    sum += std::log(seconds / same->second);
    ++count;
  }
  return count > 0 ? std::optional(std::exp(sum / count)) : std::nullopt;
}

size_t OpTable::size() const {
  size_t total = 0;
  for (const auto& [key, points] : readings_) total += points.size();
  return total;
}

std::optional<double> OpTable::seconds(std::string_view op, std::string_view precision,
                                       std::string_view mode, double work) const {
  const auto found = readings_.find(key_of(op, precision, mode));
  if (found == readings_.end()) return std::nullopt;
  const auto& points = found->second;
  const auto above = points.lower_bound(work);
  if (above == points.begin()) return above->second * work / above->first;
  const auto below = std::prev(above);
  if (above == points.end()) return below->second * work / below->first;
  const double share = std::log(work / below->first) / std::log(above->first / below->first);
  return below->second * std::pow(above->second / below->second, share);
}

std::vector<std::string> OpTable::missing(const std::vector<std::string>& ops,
                                          std::string_view precision, std::string_view mode) const {
  std::vector<std::string> absent;
  for (const std::string& op : ops) {
    if (!readings_.contains(key_of(op, precision, mode))) absent.push_back(op);
  }
  return absent;
}

}  // namespace dettax
