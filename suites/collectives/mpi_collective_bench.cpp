// Run by mpirun: all-reduce of our communicator beside the MPI library's own, in turn, in one loop.
// `of_mpi` is our time over that of MPI_Allreduce, by medians of the slowest rank: 1.1 is 10 % slower. `best_of_mpi`: by the best of each.
#define OMPI_SKIP_MPICXX 1
#include <algorithm>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <mpi.h>

#include "harness/comm/communicator.h"
#include "harness/comm/mpi_session.h"

namespace dettax {
namespace {

struct What {
  Algorithm algorithm;
  Order order;
  int64_t bytes;
};

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

double time_of_slowest(const std::function<void()>& work) {
  MPI_Barrier(MPI_COMM_WORLD);
  double seconds = -MPI_Wtime();
  work();
  seconds += MPI_Wtime();
  double slowest = 0;
  MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

void all_reduce(benchmark::State& state, Communicator& communicator, const What& what) {
  const auto count = what.bytes / static_cast<int64_t>(sizeof(float));
  std::vector<float> ours(static_cast<size_t>(count));
  std::vector<float> theirs = ours;
  const auto run_ours = [&] { communicator.all_reduce(ours.data(), count, what.order); };
  const auto run_theirs = [&] {
    MPI_Allreduce(MPI_IN_PLACE, theirs.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  };
  for (int i = 0; i < 3; ++i) {
    run_ours();
    run_theirs();
  }
  std::vector<double> our_seconds;
  std::vector<double> their_seconds;
  for (auto _ : state) {
    our_seconds.push_back(time_of_slowest(run_ours));
    state.SetIterationTime(our_seconds.back());
    their_seconds.push_back(time_of_slowest(run_theirs));
  }
  state.SetBytesProcessed(state.iterations() * what.bytes);
  state.counters["mpi_bytes_per_second"] = static_cast<double>(what.bytes) / median(their_seconds);
  state.counters["of_mpi"] = median(our_seconds) / median(their_seconds);
  state.counters["best_of_mpi"] =
      *std::ranges::min_element(our_seconds) / *std::ranges::min_element(their_seconds);
}

// All ranks run the same benchmarks as often; one reports.
class Silent : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

std::string_view name_of(Order order) {
  return order == Order::arrival ? "arrival" : order == Order::ordered ? "ordered" : "invariant";
}

void add(Communicator& communicator, const What& what) {
  const std::string name = "mpi_all_reduce/" + std::string(algorithm_name(what.algorithm)) + "/" +
                           std::string(name_of(what.order)) +
                           "/ranks:" + std::to_string(communicator.size()) +
                           "/bytes:" + std::to_string(what.bytes);
  const int64_t times = std::clamp<int64_t>((int64_t{1} << 30U) / what.bytes, 50, 2000);
  benchmark::RegisterBenchmark(
      name.c_str(),
      [&communicator, what](benchmark::State& state) { all_reduce(state, communicator, what); })
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->Iterations(times);
}

int run(int argc, char** argv) {
  MpiSession session;
  const bool spin = argc > 1 && std::string(argv[1]) == "--spin";
  std::vector<std::unique_ptr<Communicator>> communicators;
  constexpr int64_t kMiB = 1 << 20;
  for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring, Algorithm::halving}) {
    communicators.push_back(session.communicator(spin, {algorithm, {}, {}, {}}));
    for (const int64_t bytes : {kMiB / 1024, kMiB / 16, kMiB, 16 * kMiB}) {
      if (algorithm == Algorithm::direct)
        add(*communicators.back(), {algorithm, Order::arrival, bytes});
      add(*communicators.back(), {algorithm, Order::ordered, bytes});
    }
  }
  if (spin) {
    argv[1] = argv[0];
    ++argv;
    --argc;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  Silent silent;
  benchmark::RunSpecifiedBenchmarks(session.rank() == 0 ? nullptr : &silent);
  return 0;
}

}  // namespace
}  // namespace dettax

int main(int argc, char** argv) { return dettax::run(argc, argv); }
