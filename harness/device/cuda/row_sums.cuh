#pragma once

// Rows added up by index, each index's rows in a fixed order: what the deterministic and the generic gradient of an embedding are made
// of, and the generic way of experts' rows back to tokens.

#include <cstdint>

#include "harness/device/cuda/launch.cuh"
#include "harness/device/cuda/sort.cuh"

namespace dettax::deterministic {

// table[key] += the rows of `rows` at the positions with that key. Keys are sorted; those from `keys_end` on are nobody's.
template <class To, class T>
struct RowsByKey {
  To* table;
  const T* rows;
  SortedPositions sorted;
  int64_t count, width;
  int32_t keys_end;
};

// Partial sums as a stack, for addends 0, 1, ... of which some are missing (zero): each waits to meet the next at the level of the
// binary tree, aligned at 0, where their ways join.
template <int kCount>
class SparseTree {
 public:
  // The sum of one addend is complete: `sample` is its number.
  __device__ void add(int64_t sample, const Floats<kCount>& value) {
    const auto apart = static_cast<uint64_t>(sample ^ last_);
    int level = 0;
    while (level < 63 && (apart >> static_cast<uint32_t>(level)) != 0) ++level;
    while (depth_ >= 2 && meet_[depth_ - 1] < level) merge_top();
    meet_[depth_] = level;
    sums_[depth_++] = value;
    last_ = sample;
  }
  __device__ Floats<kCount> sum() {
    while (depth_ >= 2) merge_top();
    return sums_[0];
  }

 private:
  __device__ void merge_top() {
    --depth_;
    for (int k = 0; k < kCount; ++k) sums_[depth_ - 1].at[k] += sums_[depth_].at[k];
  }
  static constexpr int kDepth = 24;  // of a tree over 4 million samples, and room for the newest
  Floats<kCount> sums_[kDepth];
  int meet_[kDepth];
  int64_t last_ = 0;
  int depth_ = 0;
};

// A block for each sorted position; those that begin an index's rows walk them: a chain in each sample of `per_sample` positions, then
// the tree over samples; or, with `onto_table`, one chain that begins with what the table has, as index_put adds.
template <class To, class T, int kCount>
__global__ void add_rows_of_each_key(RowsByKey<To, T> a, int64_t per_sample, bool onto_table) {
  const int32_t* keys = a.sorted.keys;
  const int32_t* positions = a.sorted.positions;
  const int64_t first = block_index();
  const int32_t key = keys[first];
  if (key >= a.keys_end || (first > 0 && keys[first - 1] == key)) return;
  for (int64_t c = int64_t{thread_index()} * kCount; c < a.width;
       c += int64_t{block_threads()} * kCount) {
    To* to = a.table + key * a.width + c;
    const auto old = load<kCount>(to);
    SparseTree<kCount> tree;
    auto chain = onto_table ? old : zeros<kCount>();
    int64_t sample = positions[first] / per_sample;
    for (int64_t i = first; i < a.count && keys[i] == key; ++i) {
      const int64_t its = positions[i] / per_sample;
      if (its != sample) {
        tree.add(sample, chain);
        chain = zeros<kCount>();
        sample = its;
      }
      const auto row = load<kCount>(a.rows + positions[i] * a.width + c);
      for (int k = 0; k < kCount; ++k) chain.at[k] += row.at[k];
    }
    tree.add(sample, chain);
    auto sum = tree.sum();
    for (int k = 0; k < kCount && !onto_table; ++k) sum.at[k] += old.at[k];
    store(to, sum);
  }
}

}  // namespace dettax::deterministic
