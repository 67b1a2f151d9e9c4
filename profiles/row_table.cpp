#include "profiles/row_table.h"

#include <algorithm>
#include <set>
#include <utility>

#include "harness/base/error.h"

namespace dettax {

ArmPartition common_steps(std::vector<std::vector<StepPartition>> ranks) {
  ArmPartition arm;
  std::map<int64_t, size_t> ranks_with;
  for (const auto& steps : ranks) {
    for (const StepPartition& step : steps) ++ranks_with[step.window.index];
  }
  for (const auto& [index, count] : ranks_with) {
    if (count == ranks.size()) arm.steps.push_back(index);
  }
  for (auto& steps : ranks) {
    std::erase_if(steps, [&](const StepPartition& step) {
      return !std::binary_search(arm.steps.begin(), arm.steps.end(), step.window.index);
    });
    std::sort(steps.begin(), steps.end(), [](const StepPartition& a, const StepPartition& b) {
      return a.window.index < b.window.index;
    });
  }
  arm.ranks = std::move(ranks);
  return arm;
}

void RowTable::add(Arm arm, const ArmPartition& partition, const std::vector<Trace>& traces) {
  std::vector<int64_t>& lengths = step_ns_[static_cast<size_t>(arm)];
  lengths.assign(partition.steps.size(), 0);
  for (size_t rank = 0; rank < partition.ranks.size(); ++rank) {
    for (size_t step = 0; step < partition.steps.size(); ++step) {
      const StepPartition& part = partition.ranks[rank][step];
      lengths[step] += part.window.length_ns();
      for (const Cell& cell : part.cells)
        add_cell(arm, cell, traces[rank], step, partition.steps.size());
    }
  }
}

void RowTable::add_cell(Arm arm, const Cell& cell, const Trace& trace, size_t step, size_t steps) {
  const std::string& path = paths_[paths_.intern(trace.paths[cell.path])];
  const int64_t ordinal = by_ordinal_ ? static_cast<int64_t>(cell.ordinal) : -1;
  ArmSums& sums = rows_[{path, ordinal, cell.mechanism}].arms[static_cast<size_t>(arm)];
  sums.owned_ns.resize(steps);
  sums.owned_ns[step] += cell.owned_ns;
  sums.busy_ns += cell.busy_ns;
  sums.count += cell.count;
  if (cell.longest_ns > sums.longest_ns) {
    sums.longest_ns = cell.longest_ns;
    sums.longest_work = trace.names[cell.longest_name];
  }
}

void RowTable::check() const {
  for (int arm = 0; arm < kArmCount; ++arm) {
    std::vector<int64_t> left = step_ns_[arm];
    for (const auto& [key, row] : rows_) {
      const std::vector<int64_t>& owned = row.arms[arm].owned_ns;
      for (size_t step = 0; step < owned.size(); ++step) left[step] -= owned[step];
    }
    for (const int64_t rest : left) {
      if (rest != 0)
        throw Error(ErrorKind::internal, "the rows of an attribution do not add up: a step lacks " +
                                             std::to_string(rest) + " ns");
    }
  }
}

}  // namespace dettax
