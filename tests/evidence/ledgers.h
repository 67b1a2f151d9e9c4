#pragma once

#include <string>
#include <vector>

#include "harness/evidence/ledger.h"

namespace dettax {

inline Fingerprint of(float value) { return fingerprint(&value, 1, sizeof value); }

// What a step of a two-rank run shows, in short: forward, backward, the reduction's inputs and results, result and state. `arrival` is
// the value a test bends.
inline std::vector<LedgerEntry> sample_entries(int rank, int steps) {
  std::vector<LedgerEntry> entries = {{-1, "state", "weight", of(1)},
                                      {-1, "state", "random.seed", of(2)}};
  for (int step = 0; step < steps; ++step) {
    const float s = static_cast<float>(step);
    const float local = s + 10 * static_cast<float>(rank);
    entries.push_back({step, "forward/layer0/attention", "out", of(local + 3)});
    entries.push_back({step, "forward/layer1/attention", "out", of(local + 4)});
    entries.push_back({step, "backward/layer1/attention", "dqkv", of(local + 5)});
    entries.push_back({step, "backward/layer0/attention", "dqkv", of(local + 6)});
    entries.push_back({step, "reduce/gradients", "weight.grad before", of(local + 7)});
    entries.push_back({step, "reduce/gradients", "weight.grad", of(s + 8)});
    entries.push_back({step, "result", "loss", of(s + 9)});
    entries.push_back({step, "state", "weight", of(s + 10)});
  }
  return entries;
}

inline Ledger sample_ledger(int steps = 3) {
  Ledger ledger;
  ledger.case_id = "tiny.fp32.dp2.t1.b8x64";
  ledger.mode = "deterministic";
  ledger.mode_hash = "0123456789abcdef";
  ledger.seed = 1;
  ledger.steps = steps;
  ledger.threads_per_rank = 1;
  ledger.data_parallel = 2;
  ledger.micro_batch = 4;
  ledger.ranks = {sample_entries(0, steps), sample_entries(1, steps)};
  return ledger;
}

inline LedgerEntry& entry(Ledger& ledger, size_t rank, int64_t step, const std::string& path,
                          const std::string& tensor) {
  for (LedgerEntry& one : ledger.ranks[rank]) {
    if (one.step == step && one.path == path && one.tensor == tensor) return one;
  }
  throw std::runtime_error("no such entry");
}

}  // namespace dettax
