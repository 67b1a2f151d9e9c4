#pragma once

// Records of a made fleet: a case on each node, with step times of eight ranks and a deterministic arm.

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "harness/base/random.h"
#include "results/analysis/acceptance/acceptance.h"
#include "tests/results/sample_record.h"

namespace dettax {

struct NodeKind {
  double fast_ratio = 1;  // its step over a usual one
  double overhead_ratio = 1.05;
  int slow_rank = -1;
  double rank_ratio = 1;
};

// Standard normal, the same for the same arguments.
inline double noise(int node, int what) {
  const auto words = random_words({7, RandomPurpose::test, 0}, static_cast<uint64_t>(node),
                                  static_cast<uint64_t>(what));
  return normal(words[0], words[1]);
}

inline Record node_record(int node, const NodeKind& kind = {}) {
  constexpr double kStep = 0.1, kSpread = 0.004;
  constexpr int kRanks = 8, kBlocks = 8, kSteps = 3;
  Record record = sample_record();
  record.run_id = fmt::format("20260301T120000Z-node{:02}", node);
  record.environment.host = fmt::format("gpu{:02}", node);
  const double fast = kStep * kind.fast_ratio * std::exp(kSpread * noise(node, 0));
  const double overhead = kind.overhead_ratio * std::exp(kSpread / 2 * noise(node, 1));
  for (ArmResult& arm : record.arms) {
    const double seconds = arm.claims_reproducible ? fast * overhead : fast;
    arm.blocks.clear();
    for (int block = 0; block < kBlocks; ++block) {
      Block one;
      one.round = block / 2;
      one.position = block;
      for (int rank = 0; rank < kRanks; ++rank) {
        const double slower = rank == kind.slow_rank ? kind.rank_ratio : 1;
        std::vector<double> steps;
        for (int step = 0; step < kSteps; ++step)
          steps.push_back(seconds * slower *
                          std::exp(0.002 * noise(1000 * (rank + 1) + node, 10 * block + step)));
        one.step_time_seconds.push_back(steps);
      }
      arm.blocks.push_back(one);
    }
    const double whole = seconds * (kind.slow_rank < 0 ? 1 : kind.rank_ratio);
    arm.step_time_seconds = Estimate{whole, whole * 0.997, whole * 1.003, kBlocks};
    arm.tokens_per_second = 512 / whole;
    arm.places.clear();
    for (int rank = 0; rank < kRanks; ++rank)
      arm.places.push_back({rank, record.environment.host, std::to_string(rank), true});
  }
  record.taxes[0].overhead_ratio = {overhead, overhead * 0.998, overhead * 1.002, 6};
  return record;
}

inline std::vector<AcceptanceInput> fleet(int nodes,
                                          const std::function<void(int, NodeKind&)>& change = {}) {
  std::vector<AcceptanceInput> inputs;
  for (int node = 0; node < nodes; ++node) {
    NodeKind kind;
    if (change) change(node, kind);
    inputs.push_back({node_record(node, kind), 1});
  }
  return inputs;
}

}  // namespace dettax
