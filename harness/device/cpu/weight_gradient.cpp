#include <algorithm>
#include <chrono>
#include <vector>

#include "harness/device/cpu/gemm.h"

namespace dettax {
namespace {

// Tokens whose sum is one chain. Fixed by the shape alone.
constexpr int64_t kOrderedChunk = 2048;
// Contributions under Order::arrival: enough of them to race, and so long that adding them costs
// little (each costs 1-2 % at 256 tokens). Where tokens are few, only a small gradient is split, as
// one would to give all threads work; of a large one each element has one contribution a call.
constexpr int64_t kContributions = 3;
constexpr int64_t kLongestContribution = 512;
constexpr int64_t kManyTokens = 512;
constexpr int64_t kSmallGradient = int64_t{1} << 18;
constexpr int64_t kShortestCandidate = 64;
constexpr int kCallsPerCandidate = 2;

int64_t arrival_chunk(const WeightGradientCall& call) {
  const bool split = call.tokens >= kManyTokens || call.a.lines * call.b.lines <= kSmallGradient;
  if (!split) return call.tokens;
  return std::min((call.tokens + kContributions - 1) / kContributions, kLongestContribution);
}

// Chunk sizes worth trying: the whole, a half and a quarter.
std::vector<int64_t> candidates(int64_t tokens) {
  const int64_t whole = std::min(tokens, kOrderedChunk);
  std::vector<int64_t> sizes{whole};
  for (int64_t parts : {2, 4}) {
    if (whole / parts >= kShortestCandidate) sizes.push_back((whole + parts - 1) / parts);
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
  weight_gradient_in_order(team, state, call, sizes[choice]);
  if (!measuring) return;
  ++trial.calls;
  trial.best_seconds[choice] = std::min(trial.best_seconds[choice], seconds_since(start));
}

}  // namespace

void weight_gradient(Team& team, GemmState& state, const WeightGradientCall& call) {
  switch (call.order) {
    case Order::arrival:
      return weight_gradient_on_arrival(team, state, call, arrival_chunk(call));
    case Order::ordered:
      // An expert has another number of rows in every call: there is nothing to tune for.
      if (call.dynamic && call.sample_begins == nullptr) return run_tuned(team, state, call);
      return weight_gradient_in_order(team, state, call, std::min(call.tokens, kOrderedChunk));
    case Order::invariant:
      return weight_gradient_in_order(team, state, call, call.tokens);
  }
}

}  // namespace dettax
