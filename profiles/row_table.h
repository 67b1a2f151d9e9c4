#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "profiles/name_table.h"
#include "profiles/partition.h"

namespace dettax {

enum class Arm { fast, deterministic };
inline constexpr int kArmCount = 2;

// The partitions of all ranks of one arm over the steps that are complete on every rank.
struct ArmPartition {
  std::vector<int64_t> steps;                     // indices
  std::vector<std::vector<StepPartition>> ranks;  // [rank][step]
  int64_t step_count() const { return static_cast<int64_t>(steps.size()); }
};

// Of each rank's complete steps those that all ranks have.
ArmPartition common_steps(std::vector<std::vector<StepPartition>> ranks);

// Times of both arms by key, in whole nanoseconds summed over ranks, a sum for each step.
class RowTable {
 public:
  struct ArmSums {
    std::vector<int64_t> owned_ns;  // by step
    int64_t busy_ns = 0, count = 0;
    std::string longest_work;
    int64_t longest_ns = 0;
  };
  // path (empty: unmapped), ordinal (-1: all), mechanism
  using Key = std::tuple<std::string_view, int64_t, Mechanism>;
  struct Row {
    ArmSums arms[kArmCount];
  };

  // Each occurrence of a path on its own, or all of them together.
  explicit RowTable(bool by_ordinal) : by_ordinal_(by_ordinal) {}
  RowTable(const RowTable&) = delete;  // keys point into paths_

  // `traces`: whose names and paths the partition's cells speak of, by rank.
  void add(Arm arm, const ArmPartition& partition, const std::vector<Trace>& traces);

  // Throws Error{internal} unless, in both arms and every step, the rows add up to the steps' lengths exactly.
  void check() const;

  const std::map<Key, Row>& rows() const { return rows_; }
  std::map<Key, Row>& rows() { return rows_; }
  // Lengths of the steps, summed over ranks.
  const std::vector<int64_t>& step_ns(Arm arm) const { return step_ns_[static_cast<size_t>(arm)]; }

 private:
  void add_cell(Arm arm, const Cell& cell, const Trace& trace, size_t step, size_t steps);

  bool by_ordinal_;
  NameTable paths_;
  std::map<Key, Row> rows_;
  std::vector<int64_t> step_ns_[kArmCount];
};

}  // namespace dettax
