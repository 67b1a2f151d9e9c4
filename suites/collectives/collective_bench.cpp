// Collectives over rank threads, each beside a copy of the same size by one thread in the same loop:
// `of_memcpy` is payload bytes per second over bytes copied per second, by medians, `best_of_memcpy` by the best of each.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "harness/comm/communicator.h"
#include "suites/collectives/rank_threads.h"

namespace dettax {
namespace {

constexpr auto kFloat = static_cast<int64_t>(sizeof(float));

struct What {
  OperationKind kind;
  Algorithm algorithm;
  Order order;
  int ranks;
  int64_t bytes;  // of the whole vector, on each rank
};

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

double time_of_copy(const std::vector<float>& from, std::vector<float>& to) {
  const auto start = std::chrono::steady_clock::now();
  std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
  benchmark::DoNotOptimize(to.data());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Ranks of two to a node, so that the hierarchy has something to do.
CollectiveSettings settings_of(const What& what) {
  CollectiveSettings settings{what.algorithm, {}, {}, {}};
  for (int r = 0; what.algorithm == Algorithm::hierarchical && r < what.ranks; ++r)
    settings.node_of_rank.push_back(r / 2);
  return settings;
}

void collective(benchmark::State& state, const What& what) {
  const auto ranks = static_cast<size_t>(what.ranks);
  const bool spin = what.ranks <= static_cast<int>(std::thread::hardware_concurrency());
  const int64_t count = what.bytes / kFloat;
  const int64_t part = count / what.ranks;
  std::vector<std::vector<float>> whole(ranks, std::vector<float>(static_cast<size_t>(count)));
  std::vector<std::vector<float>> parts(ranks, std::vector<float>(static_cast<size_t>(part)));
  std::vector<float> copy = whole[0];
  std::vector<double> seconds;
  std::vector<double> copy_seconds;
  RankThreads threads(what.ranks, spin, settings_of(what));
  const RankThreads::Work work = [&](Communicator& communicator) {
    float* all = whole[static_cast<size_t>(communicator.rank())].data();
    float* mine = parts[static_cast<size_t>(communicator.rank())].data();
    switch (what.kind) {
      case OperationKind::reduce_scatter:
        communicator.reduce_scatter(all, mine, part, what.order);
        break;
      case OperationKind::all_gather:
        communicator.all_gather(mine, all, part * kFloat);
        break;
      default:
        communicator.all_reduce(all, count, what.order);
    }
  };
  for (int i = 0; i < 3; ++i) threads.time(work);
  for (auto _ : state) {
    seconds.push_back(threads.time(work));
    state.SetIterationTime(seconds.back());
    for (auto& values : whole) benchmark::DoNotOptimize(values.data());
    copy_seconds.push_back(time_of_copy(whole[0], copy));
  }
  state.SetBytesProcessed(state.iterations() * what.bytes);
  const auto bytes = static_cast<double>(what.bytes);
  state.counters["memcpy_bytes_per_second"] = bytes / median(copy_seconds);
  state.counters["of_memcpy"] = median(copy_seconds) / median(seconds);
  state.counters["of_roofline_ratio"] = state.counters["of_memcpy"];  // memory is its roof
  state.counters["best_of_memcpy"] =
      *std::ranges::min_element(copy_seconds) / *std::ranges::min_element(seconds);
}

std::string_view name_of(Order order) {
  return order == Order::arrival ? "arrival" : order == Order::ordered ? "ordered" : "invariant";
}

void add(const What& what, const std::string& kind) {
  const std::string name = kind + "/" + std::string(algorithm_name(what.algorithm)) + "/" +
                           std::string(name_of(what.order)) +
                           "/ranks:" + std::to_string(what.ranks) +
                           "/bytes:" + std::to_string(what.bytes);
  benchmark::RegisterBenchmark(name.c_str(),
                               [what](benchmark::State& state) { collective(state, what); })
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

void add_all() {
  constexpr int64_t kMiB = 1 << 20;
  for (const int ranks : {2, 4}) {
    for (const int64_t bytes : {kMiB / 16, kMiB, 16 * kMiB}) {
      for (const Order order : {Order::arrival, Order::ordered, Order::invariant})
        add({OperationKind::all_reduce, Algorithm::direct, order, ranks, bytes}, "all_reduce");
      for (const Algorithm algorithm :
           {Algorithm::ring, Algorithm::tree, Algorithm::halving, Algorithm::hierarchical}) {
        if (algorithm == Algorithm::hierarchical && ranks < 4) continue;
        add({OperationKind::all_reduce, algorithm, Order::ordered, ranks, bytes}, "all_reduce");
      }
    }
    for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring}) {
      add({OperationKind::reduce_scatter, algorithm, Order::ordered, ranks, 16 * kMiB},
          "reduce_scatter");
      add({OperationKind::all_gather, algorithm, Order::ordered, ranks, 16 * kMiB}, "all_gather");
    }
  }
}

}  // namespace
}  // namespace dettax

int main(int argc, char** argv) {
  dettax::add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
