// What spreading a batch over data-parallel ranks costs: the same global batch on one rank with two threads and on two ranks with one
// thread each, alternately. It prints step times and the throughput of the ranks over that of the threads. Exit code 1 if the
// upper end of its 95 % interval is under what --wanted says.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/exit_code.h"
#include "harness/measure/measure.h"
#include "harness/plan/suite.h"
#include "harness/train/train_step.h"
#include "suites/bench/bench_main.h"

namespace dettax {
namespace {

struct Settings {
  std::string model = "gpt-small", mode = "fast";
  int64_t batch = 8, sequence_length = 128;
  int zero_stage = 0;
  double seconds = 30;
  double wanted = 0.9;
};

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Case workload(const Settings& settings, int ranks) {
  constexpr int kCores = 2;
  Case planned;
  planned.model = load_model(settings.model);
  planned.layout.dp = planned.topology.ranks_per_node = ranks;
  planned.layout.zero_stage = ranks > 1 ? settings.zero_stage : 0;
  planned.topology.threads_per_rank = kCores / ranks;
  planned.batch = {settings.batch / ranks, settings.batch, settings.sequence_length};
  return planned;
}

// The ranks of a layout as threads, which start for each block and meet before each step.
class RanksArm : public TimedArm {
 public:
  RanksArm(std::string name, const Case& planned, const Mode& mode)
      : name_(std::move(name)),
        communicators_(make_thread_communicators(planned.layout.ranks(), true)) {
    const bool spin = true;
    for (size_t r = 0; r < communicators_.size(); ++r)
      devices_.push_back(make_cpu_device(planned.topology.threads_per_rank, spin));
    steps_.resize(communicators_.size());
    on_all_ranks([&](size_t rank) {
      steps_[rank] =
          std::make_unique<TrainStep>(planned, mode, *devices_[rank], *communicators_[rank]);
      steps_[rank]->reset(planned.seed);
    });
  }

  const std::string& name() const override { return name_; }
  Block run_steps(int steps) override {
    Block block;
    block.step_time_seconds.resize(steps_.size());
    on_all_ranks([&](size_t rank) {
      for (int i = 0; i < steps; ++i) {
        communicators_[rank]->barrier();
        const double start = now_seconds();
        steps_[rank]->step();
        block.step_time_seconds[rank].push_back(now_seconds() - start);
      }
    });
    return block;
  }

 private:
  template <typename Body>
  void on_all_ranks(const Body& body) {
    std::vector<std::jthread> others;
    for (size_t rank = 1; rank < communicators_.size(); ++rank)
      others.emplace_back([&body, rank] { body(rank); });
    body(0);
  }

  std::string name_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<TrainStep>> steps_;
};

int run(const Settings& settings) {
  const Mode mode = load_mode(settings.mode);
  const Case one = workload(settings, 1), two = workload(settings, 2);
  RanksArm threads("one rank", one, mode), ranks("two ranks", two, mode);
  MeasureSettings measuring;
  measuring.budget_seconds = settings.seconds;
  measuring.rounds_max = 1000;
  const Measurement m = measure({&threads, &ranks}, measuring, 1, MeasureClock{now_seconds}, {});
  if (m.failure) throw Error(m.failure->kind, m.failure->message);
  const auto ratio = paired_ratio(m.blocks[1], m.blocks[0], measuring.confidence);
  const auto time_one = step_time(m.blocks[0], measuring.confidence);
  const auto time_two = step_time(m.blocks[1], measuring.confidence);
  if (!ratio || !time_one || !time_two)
    throw Error(ErrorKind::infrastructure, "too few rounds for an interval: give more --budget");
  const double high = 1 / ratio->low;
  fmt::print("{}, {}: batch {} x {}\n", settings.model, settings.mode, settings.batch,
             settings.sequence_length);
  fmt::print("one rank, two threads    {:8.1f} ms a step\n", 1e3 * time_one->value);
  fmt::print("two ranks, a thread each {:8.1f} ms a step ({})\n", 1e3 * time_two->value,
             to_string(two.layout));
  fmt::print(
      "throughput of the ranks over that of the threads: {:.3f} ({:.3f} to {:.3f}, 95 % "
      "interval, n = {})\n",
      1 / ratio->value, 1 / ratio->high, high, ratio->count);
  return static_cast<int>(high >= settings.wanted ? ExitCode::pass : ExitCode::fail);
}

int run_command_line(int argc, char** argv) {
  Settings settings;
  CLI::App app("Throughput of two data-parallel ranks against one rank on the same cores.");
  app.add_option("--model", settings.model, "name or file");
  app.add_option("--mode", settings.mode, "name or file");
  app.add_option("--batch", settings.batch, "global, even")->check(CLI::PositiveNumber);
  app.add_option("--sequence-length", settings.sequence_length)->check(CLI::PositiveNumber);
  app.add_option("--zero", settings.zero_stage, "of the two ranks")
      ->check(CLI::IsMember({0, 1, 3}));
  app.add_option("--budget", settings.seconds, "seconds of measuring")->check(CLI::PositiveNumber);
  app.add_option("--wanted", settings.wanted, "least ratio")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return run(settings);
}

}  // namespace
}  // namespace dettax

int main(int argc, char** argv) {
  return dettax::bench_main("scaling_bench", [&] { return dettax::run_command_line(argc, argv); });
}
