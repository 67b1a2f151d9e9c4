#include "small_cases.h"

#include <algorithm>
#include <chrono>

#include "tests/small_models.h"

namespace dettax::testing_support {
namespace {

class LogObserver : public StepObserver {
 public:
  LogObserver(Device& device, Log& log) : device_(device), log_(log) {}
  void on_op(std::string_view) override {}
  void on_tensor(std::string_view path, std::string_view name, const Tensor& tensor,
                 uint64_t first_index) override {
    log_.push_back(
        {std::string(path), std::string(name), device_.fingerprint(tensor, first_index)});
  }

 private:
  Device& device_;
  Log& log_;
};

void log_state(const TrainStep& train, Log& log) {
  train.fingerprint([&](std::string_view name, const Fingerprint& value) {
    log.push_back({"state", std::string(name), value});
  });
}

// Rank 0 decides whether to go on after `done` runs.
std::string difference_while(const Case& planned, const Mode& mode,
                             const std::function<bool(int done)>& go_on) {
  std::vector<Log> first(static_cast<size_t>(planned.layout.ranks()));
  std::vector<Log> again = first;
  std::string found;
  bool more = true;
  train_on_ranks(planned, mode, [&](RankRun& rank) {
    const auto index = static_cast<size_t>(rank.communicator.rank());
    first[index] = record_rank(rank, planned.seed, 1);
    for (int done = 1; more; ++done) {
      rank.device.set_jitter(static_cast<uint64_t>(done) * again.size() + index);
      again[index] = record_rank(rank, planned.seed, 1);
      rank.communicator.barrier();
      if (index == 0) {
        found = first_difference(first, again);
        more = found.empty() && go_on(done + 1);
      }
      rank.communicator.barrier();
    }
  });
  return found;
}

}  // namespace

Model small_gpt() {
  return gpt_model({.name = "small-gpt",
                    .vocabulary = 90,
                    .context = 24,
                    .layers = 2,
                    .width = 32,
                    .heads = 2,
                    .ffn_width = 64});
}

Model small_llama() {
  Model model = small_gpt();
  model.name = "small-llama";
  model.heads = 4;
  model.key_value_heads = 2;
  model.head_width = 8;
  model.ffn_width = 48;
  model.norm = NormKind::rms_norm;
  model.activation = Activation::swiglu;
  model.position = Position::rope;
  model.tied_head = false;
  model.bias = false;
  return model;
}

Model small_moe() {
  Model model = small_llama();
  model.name = "small-moe";
  Moe moe;
  moe.experts = 4;
  moe.top_k = 2;
  moe.expert_width = 24;
  moe.balance_weight = 0.1;
  model.moe = moe;
  return model;
}

Case small_case(const Model& model) {
  Case planned;
  planned.model = model;
  planned.batch = {4, 4, 12};
  planned.topology.threads_per_rank = 2;
  return planned;
}

Mode fast() { return {.name = "fast", .knobs = {}, .environment = {}, .note = {}, .hash = {}}; }
Mode deterministic() { return mode_with("deterministic", Order::ordered); }
Mode invariant() { return mode_with("invariant", Order::invariant); }

void train_on_ranks(const Case& planned, const Mode& mode,
                    const std::function<void(RankRun&)>& body) {
  // Threads of one rank poll, as they do in a measurement: they must start together for their sums to race.
  const int ranks = planned.layout.ranks();
  const bool spin = ranks == 1;
  run_ranks(ranks, false, [&](Communicator& communicator) {
    const auto device = make_cpu_device(planned.topology.threads_per_rank, spin);
    TrainStep train(planned, mode, *device, communicator);
    RankRun rank{train, *device, communicator};
    body(rank);
  });
}

Log record_rank(RankRun& rank, uint64_t seed, int steps) {
  Log log;
  LogObserver observer(rank.device, log);
  rank.train.reset(seed);
  log_state(rank.train, log);
  rank.train.observe(&observer);
  for (int i = 0; i < steps; ++i) {
    const StepResult result = rank.train.step();
    log.push_back({"result", "loss", fingerprint(&result.loss, 1, sizeof(float))});
    log.push_back(
        {"result", "gradient_norm", fingerprint(&result.gradient_norm, 1, sizeof(float))});
    log_state(rank.train, log);
  }
  rank.train.observe(nullptr);
  return log;
}

std::vector<Log> record(const Case& planned, const Mode& mode, int steps) {
  std::vector<Log> logs(static_cast<size_t>(planned.layout.ranks()));
  train_on_ranks(planned, mode, [&](RankRun& rank) {
    logs[static_cast<size_t>(rank.communicator.rank())] = record_rank(rank, planned.seed, steps);
  });
  return logs;
}

std::string difference_between_runs(const Case& planned, const Mode& mode, int runs) {
  return difference_while(planned, mode, [&](int done) { return done < runs; });
}

std::string difference_in_the_end(const Case& planned, const Mode& mode) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(40);
  return difference_while(planned, mode,
                          [&](int) { return std::chrono::steady_clock::now() < end; });
}

Log layout_free(const std::vector<Log>& logs) {
  Log kept;
  std::ranges::copy_if(logs.front(), std::back_inserter(kept), [](const Entry& e) {
    return e.path == "state" || e.path == "result" ||
           (e.path.starts_with("reduce/") && !e.tensor.ends_with(" before"));
  });
  return kept;
}

std::string first_difference(const Log& a, const Log& b) {
  return first_difference(std::vector<Log>(1, a), std::vector<Log>(1, b));
}

// In program order over all ranks.
std::string first_difference(const std::vector<Log>& a, const std::vector<Log>& b) {
  if (a.size() != b.size()) return "another number of ranks";
  size_t most = 0;
  for (size_t r = 0; r < a.size(); ++r) {
    if (a[r].size() != b[r].size()) return "another number of entries";
    most = std::max(most, a[r].size());
  }
  for (size_t i = 0; i < most; ++i) {
    for (size_t r = 0; r < a.size(); ++r) {
      if (i < a[r].size() && a[r][i] != b[r][i]) return a[r][i].path + " " + a[r][i].tensor;
    }
  }
  return a.front().empty() ? "nothing compared" : "";
}

}  // namespace dettax::testing_support
