#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "profiles/keys.h"
#include "profiles/trace.h"

namespace dettax {

// A data-parallel training loop as a profiler would record it: a host thread a rank that launches, a compute stream, a stream of
// all-reduces that overlap with the backward pass. Faults can be put in; all sizes are known exactly.
struct SimulatedLoop {
  int ranks = 2, layers = 3, steps = 6;
  int64_t jitter_ns = 200;  // of each kernel, uniform, by `seed`
  uint64_t seed = 1;

  int64_t slow_op_ns = 0;          // added to backward/layer1 attention
  int64_t slow_collective_ns = 0;  // added to the last all-reduce
  int64_t fill_ns = 0;             // a fill of this length in front of each forward kernel
  bool overlap = true;             // false: each all-reduce is waited for by what comes next
  int64_t launch_gap_ns = 0;       // the host does something else before it launches the optimizer
  int64_t slow_rank_ns = 0;        // rank 1's backward/layer0 mlp is slower
  bool second_kernel = false;  // attention's backward pass is two other kernels in the place of one
};

class Simulation {
 public:
  explicit Simulation(const SimulatedLoop& loop)
      : loop_(loop), state_(loop.seed), ranks_(static_cast<size_t>(loop.ranks)) {
    for (size_t r = 0; r < ranks_.size(); ++r) start_rank(r);
  }

  std::vector<Trace> run() {
    for (int step = 0; step < loop_.steps; ++step) run_step(step);
    std::vector<Trace> traces;
    for (Rank& rank : ranks_) {
      sort_spans(rank.trace);
      assign_paths(rank.trace);
      traces.push_back(std::move(rank.trace));
    }
    return traces;
  }

  static constexpr int64_t kCallNs = 4000, kLatencyNs = 2000, kAttentionNs = 100'000,
                           kMlpNs = 150'000, kReduceNs = 140'000, kAdamNs = 60'000;

 private:
  enum : uint32_t { kThread, kCompute, kCommunication };
  struct Rank {
    Trace trace;
    int64_t host_ns = 1'786'000'000'000'000'000;
    int64_t stream_free_ns[3] = {};
    uint64_t correlation = 0;
  };

  void start_rank(size_t r) {
    Trace& trace = ranks_[r].trace;
    trace.source = "rank" + std::to_string(r);
    trace.rank = static_cast<int>(r);
    trace.world_size = loop_.ranks;
    trace.host = "node";
    trace.streams = {{"1", "1", false, 0, 0}, {"0", "7", true, 0, 7}, {"0", "20", true, 0, 20}};
  }

  int64_t jitter() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return loop_.jitter_ns == 0
               ? 0
               : static_cast<int64_t>((state_ >> 33) % static_cast<uint64_t>(loop_.jitter_ns));
  }

  // A range with a launch in it; the correlation.
  uint64_t launch(Rank& rank, const std::string& phase, const std::string& op, int kernels = 1) {
    Trace& trace = rank.trace;
    const int64_t start = rank.host_ns;
    for (int k = 0; k < kernels; ++k) {
      Span call{.start_ns = rank.host_ns + 500,
                .end_ns = rank.host_ns + 500 + kCallNs,
                .correlation = ++rank.correlation};
      call.name = trace.names.intern("cudaLaunchKernel");
      call.category = Category::launch;
      trace.spans.push_back(call);
      rank.host_ns = call.end_ns + 500;
    }
    for (const auto& [name, category] :
         {std::pair{phase, Category::annotation}, std::pair{op, Category::op}}) {
      Span range{.start_ns = start, .end_ns = rank.host_ns};
      range.name = trace.names.intern(name);
      range.category = category;
      trace.spans.push_back(range);
    }
    return rank.correlation;
  }

  int64_t launched_at(const Rank& rank) const { return rank.host_ns - 500 + kLatencyNs; }

  // The end of the kernel.
  int64_t work(Rank& rank, uint32_t stream, const std::string& name, Category category,
               uint64_t correlation, int64_t start_ns, int64_t length_ns, uint32_t collective = 0) {
    Span span{.start_ns = start_ns, .end_ns = start_ns + length_ns, .correlation = correlation};
    span.name = rank.trace.names.intern(name);
    span.stream = stream;
    span.category = category;
    span.collective = collective;
    rank.trace.spans.push_back(span);
    rank.stream_free_ns[stream] = span.end_ns;
    return span.end_ns;
  }

  int64_t kernel(Rank& rank, const std::string& phase, const std::string& op,
                 const std::string& name, int64_t length_ns, int64_t after_ns = 0,
                 Category category = Category::compute) {
    const uint64_t correlation = launch(rank, phase, op);
    const int64_t start = std::max({launched_at(rank), rank.stream_free_ns[kCompute], after_ns});
    return work(rank, kCompute, name, category, correlation, start, length_ns + jitter());
  }

  void all_reduce(const std::string& phase, const std::vector<int64_t>& ready_ns,
                  int64_t length_ns) {
    std::vector<int64_t> start;
    std::vector<uint64_t> correlation;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      correlation.push_back(launch(ranks_[r], phase, "all_reduce"));
      start.push_back(std::max(
          {launched_at(ranks_[r]), ranks_[r].stream_free_ns[kCommunication], ready_ns[r]}));
    }
    const int64_t end = *std::max_element(start.begin(), start.end()) + length_ns + jitter();
    ++sequence_;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      Trace& trace = ranks_[r].trace;
      trace.collectives.push_back(
          {trace.names.intern("allreduce"), trace.names.intern("dp"), sequence_, loop_.ranks});
      work(ranks_[r], kCommunication, "ncclDevKernel_AllReduce", Category::communication,
           correlation[r], start[r], end - start[r],
           static_cast<uint32_t>(trace.collectives.size() - 1));
      if (!loop_.overlap)
        ranks_[r].stream_free_ns[kCompute] = std::max(ranks_[r].stream_free_ns[kCompute], end);
    }
  }

  void forward(Rank& rank, int layer) {
    const std::string phase = "forward/layer" + std::to_string(layer);
    for (const auto& [op, length] :
         {std::pair{"attention", kAttentionNs}, std::pair{"mlp", kMlpNs}}) {
      if (loop_.fill_ns > 0)
        kernel(rank, phase, "empty", "FillFunctor", loop_.fill_ns, 0, Category::fill);
      kernel(rank, phase, op, std::string(op) + "_forward", length);
    }
  }

  int64_t backward(size_t r, int layer) {
    Rank& rank = ranks_[r];
    const std::string phase = "backward/layer" + std::to_string(layer);
    const int64_t slow = (layer == 0 && r == 1 ? loop_.slow_rank_ns : 0);
    kernel(rank, phase, "mlp", "mlp_backward", 2 * kMlpNs + slow);
    const int64_t attention = 2 * kAttentionNs + (layer == 1 ? loop_.slow_op_ns : 0);
    if (!loop_.second_kernel)
      return kernel(rank, phase, "attention", "attention_backward_atomic", attention);
    const uint64_t second = launch(rank, phase, "attention", 2);
    const int64_t start = std::max(launched_at(rank), rank.stream_free_ns[kCompute]);
    work(rank, kCompute, "attention_backward_ordered", Category::compute, second - 1, start,
         attention);
    return work(rank, kCompute, "attention_backward_reduce", Category::compute, second,
                rank.stream_free_ns[kCompute], 20'000);
  }

  void run_step(int step) {
    for (Rank& rank : ranks_) rank.trace.steps.push_back({step, rank.host_ns, rank.host_ns});
    for (int layer = 0; layer < loop_.layers; ++layer) {
      for (Rank& rank : ranks_) forward(rank, layer);
    }
    for (int layer = loop_.layers - 1; layer >= 0; --layer) {
      std::vector<int64_t> ready;
      for (size_t r = 0; r < ranks_.size(); ++r) ready.push_back(backward(r, layer));
      all_reduce("backward/layer" + std::to_string(layer), ready,
                 kReduceNs + (layer == 0 ? loop_.slow_collective_ns : 0));
    }
    for (Rank& rank : ranks_) finish_step(rank);
  }

  // The host waits for the gradients, then launches the optimizer.
  void finish_step(Rank& rank) {
    Span wait{.start_ns = rank.host_ns,
              .end_ns = std::max(rank.host_ns, rank.stream_free_ns[kCommunication]) + 1000};
    wait.name = rank.trace.names.intern("cudaStreamSynchronize");
    wait.category = Category::synchronize;
    rank.trace.spans.push_back(wait);
    rank.host_ns = wait.end_ns + loop_.launch_gap_ns;
    kernel(rank, "optimizer", "adam", "adam", kAdamNs);
    rank.trace.steps.back().end_ns = rank.host_ns;
  }

  const SimulatedLoop loop_;
  uint64_t state_;
  std::vector<Rank> ranks_;
  int64_t sequence_ = 0;
};

inline std::vector<Trace> simulate(const SimulatedLoop& loop) { return Simulation(loop).run(); }

}  // namespace dettax
