#include <algorithm>
#include <chrono>
#include <vector>

#include "harness/device/cpu/gemm.h"

namespace dettax {
namespace {

// Tokens whose sum is one chain. Fixed by the shape alone.
constexpr int64_t kOrderedChunk = 2048;
// Tokens of one contribution under Order::arrival: small enough for several to race, large enough
// that adding them costs little.
constexpr int64_t kArrivalChunk = 512;
constexpr int64_t kMinArrivalChunk = 128;
constexpr int kCallsPerCandidate = 2;

int64_t arrival_chunk(int64_t tokens) {
  const int64_t quarter = (tokens + 3) / 4;
  return std::clamp(quarter, kMinArrivalChunk, kArrivalChunk);
}

// Chunk sizes worth trying: the whole, a half and a quarter.
std::vector<int64_t> candidates(int64_t tokens) {
  const int64_t whole = std::min(tokens, kOrderedChunk);
  std::vector<int64_t> sizes{whole};
  for (int64_t parts : {2, 4}) {
    if (whole / parts >= kMinArrivalChunk / 2) sizes.push_back((whole + parts - 1) / parts);
  }
  return sizes;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Ordered sums, but the chunk is what was fastest in the first calls of this shape: another process
// may choose another.
void run_tuned(Team& team, GemmState& state, const WeightGradientCall& call) {
  const std::vector<int64_t> sizes = candidates(call.tokens);
  ChunkTrial& trial = state.trials[{call.a.lines, call.b.lines, call.tokens}];
  trial.best_seconds.resize(sizes.size(), 1e30);
  const bool measuring = trial.calls < kCallsPerCandidate * static_cast<int>(sizes.size());
  const auto best = std::min_element(trial.best_seconds.begin(), trial.best_seconds.end());
  const size_t choice = measuring ? static_cast<size_t>(trial.calls) % sizes.size()
                                  : static_cast<size_t>(best - trial.best_seconds.begin());
  const auto start = std::chrono::steady_clock::now();
  weight_gradient_in_chunks(team, state, call, sizes[choice]);
  if (!measuring) return;
  ++trial.calls;
  trial.best_seconds[choice] = std::min(trial.best_seconds[choice], seconds_since(start));
}

}  // namespace

void weight_gradient(Team& team, GemmState& state, const WeightGradientCall& call) {
  if (call.order == Order::ordered && call.dynamic) return run_tuned(team, state, call);
  const int64_t chunk = call.order == Order::arrival     ? arrival_chunk(call.tokens)
                        : call.order == Order::invariant ? call.tokens
                                                         : kOrderedChunk;
  weight_gradient_in_chunks(team, state, call, chunk);
}

}  // namespace dettax
