// How finely the tax can be told: the real measuring loop over real training steps, one arm of which is slowed down by a known share.
// Per share it prints how often the 95 % interval held the truth, how often the control arm (no slow-down) was called different, and
// the mean half-width. Arms live in one process and are built anew for each repetition, so that a bias of memory placement is drawn
// anew too. Exit code 1 if coverage is under 90 % or more than 5 % of the A/A pairs were called different.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/exit_code.h"
#include "harness/measure/measure.h"
#include "harness/plan/suite.h"
#include "harness/train/train_step.h"
#include "results/run_folder.h"
#include "suites/bench/bench_main.h"

namespace dettax {
namespace {

struct Settings {
  std::vector<double> slow_ratios = {0, 0.01, 0.03, 0.10};
  int repetitions = 10;
  double seconds = 10;
  double target_half_width = MeasureSettings{}.target_half_width;  // 0: use up the seconds
  double block_seconds = MeasureSettings{}.block_seconds;
  int threads = 2;
  uint64_t first_seed = 1;
  bool each = false;  // print every repetition
  std::string json_path;
};

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Case workload(int threads) {
  Case planned;
  planned.model = load_model("gpt-tiny");
  planned.topology.threads_per_rank = threads;
  planned.batch = {4, 4, 64};
  return planned;
}

// Before each step, untimed: the idle compute threads of every arm go to sleep. The slowed arm's go to sleep while it waits, and
// their waking would otherwise be a part of its slow-down that the others do not have.
constexpr double kRestSeconds = 0.0005;

void wait_until(double seconds) {
  while (now_seconds() < seconds) {
  }
}

// One rank's training step, made longer by a busy wait of `slow_ratio` of each step's own time: the true ratio is 1 + slow_ratio.
class SlowedArm : public TimedArm {
 public:
  SlowedArm(std::string name, const Case& planned, double slow_ratio)
      : name_(std::move(name)),
        slow_ratio_(slow_ratio),
        device_(make_cpu_device(planned.topology.threads_per_rank, true)),
        communicators_(make_thread_communicators(1, false)),
        step_(planned, Mode{}, *device_, *communicators_.front()) {
    step_.reset(planned.seed);
  }

  const std::string& name() const override { return name_; }
  Block run_steps(int steps) override {
    Block block;
    std::vector<double>& times = block.step_time_seconds.emplace_back();
    for (int i = 0; i < steps; ++i) {
      wait_until(now_seconds() + kRestSeconds);
      const double start = now_seconds();
      if (!step_.step().finite) throw Error(ErrorKind::numeric, name_ + ": the loss is not finite");
      device_->synchronize();
      wait_until(start + (now_seconds() - start) * (1 + slow_ratio_));
      times.push_back(now_seconds() - start);
    }
    return block;
  }

 private:
  std::string name_;
  double slow_ratio_;
  std::unique_ptr<Device> device_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  TrainStep step_;
};

struct Row {
  double slow_ratio = 0;
  int repetitions = 0, covered = 0, false_differences = 0;
  double half_width = 0, rounds = 0, step_seconds = 0;  // means
};

Row measure_row(const Settings& settings, double slow_ratio) {
  Row row;
  row.slow_ratio = slow_ratio;
  MeasureSettings measuring;
  measuring.budget_seconds = settings.seconds;
  measuring.block_seconds = settings.block_seconds;
  measuring.target_half_width = settings.target_half_width;
  measuring.rounds_max = 100000;
  const Case planned = workload(settings.threads);
  const MeasureClock clock{now_seconds};
  for (int i = 0; i < settings.repetitions; ++i) {
    SlowedArm fast("fast", planned, 0), control("control", planned, 0),
        slowed("slowed", planned, slow_ratio);
    const Measurement m = measure({&fast, &control, &slowed}, measuring,
                                  settings.first_seed + static_cast<uint64_t>(i), clock, {});
    if (m.failure) throw Error(m.failure->kind, m.failure->message);
    const auto ratio = paired_ratio(m.blocks[2], m.blocks[0], measuring.confidence);
    const auto same = paired_ratio(m.blocks[1], m.blocks[0], measuring.confidence);
    const auto time = step_time(m.blocks[0], measuring.confidence);
    if (!ratio || !same || !time)
      throw Error(ErrorKind::infrastructure, "too few rounds for an interval: give more --budget");
    if (settings.each) {
      fmt::print(
          "  slowed / fast {:.4f} [{:.4f}, {:.4f}]   control / fast {:.4f} [{:.4f}, {:.4f}]   n = "
          "{}\n",
          ratio->value, ratio->low, ratio->high, same->value, same->low, same->high, ratio->count);
    }
    const double n = settings.repetitions;
    ++row.repetitions;
    row.covered += ratio->low <= 1 + slow_ratio && 1 + slow_ratio <= ratio->high;
    row.false_differences += same->low > 1 || same->high < 1;
    row.half_width += (ratio->high - ratio->low) / 2 / n;
    row.rounds += static_cast<double>(ratio->count) / n;
    row.step_seconds += time->value / n;
  }
  return row;
}

std::string to_json(const Settings& settings, const std::vector<Row>& rows) {
  std::string text = fmt::format("{{\"seconds\": {}, \"threads\": {}, \"rows\": [",
                                 settings.seconds, settings.threads);
  const char* separator = "\n";
  for (const Row& row : rows) {
    text += fmt::format(
        "{}  {{\"slow_ratio\": {}, \"repetitions\": {}, \"covered\": {}, \"false_differences\": "
        "{}, "
        "\"mean_half_width_ratio\": {}, \"mean_rounds\": {}, \"mean_step_time_seconds\": {}}}",
        separator, row.slow_ratio, row.repetitions, row.covered, row.false_differences,
        row.half_width, row.rounds, row.step_seconds);
    separator = ",\n";
  }
  return text + "\n]}\n";
}

int run(const Settings& settings) {
  std::vector<Row> rows;
  int repetitions = 0, covered = 0, false_differences = 0;
  fmt::print(
      "slowed by   held the truth   A/A called different   mean half-width   mean rounds   step "
      "time\n");
  for (double slow_ratio : settings.slow_ratios) {
    const Row row = measure_row(settings, slow_ratio);
    fmt::print(
        "{:>7.1f} %   {:>7} of {:<4}   {:>13} of {:<4}   {:>13.2f} %   {:>11.0f}   {:>6.2f} ms\n",
        100 * slow_ratio, row.covered, row.repetitions, row.false_differences, row.repetitions,
        100 * row.half_width, row.rounds, 1e3 * row.step_seconds);
    std::fflush(stdout);
    repetitions += row.repetitions;
    covered += row.covered;
    false_differences += row.false_differences;
    rows.push_back(row);
  }
  const bool good = covered >= 0.90 * repetitions && false_differences <= 0.05 * repetitions;
  fmt::print(
      "all: the interval held the truth in {:.1f} %, A/A was called different in {:.1f} % of {} "
      "repetitions of {} s\n",
      100.0 * covered / repetitions, 100.0 * false_differences / repetitions, repetitions,
      settings.seconds);
  if (!settings.json_path.empty())
    write_file_atomically(settings.json_path, to_json(settings, rows));
  return static_cast<int>(good ? ExitCode::pass : ExitCode::fail);
}

int run_command_line(int argc, char** argv) {
  Settings settings;
  CLI::App app("Resolution of the measuring loop, by a known slow-down of real training steps.");
  app.add_option("--slow", settings.slow_ratios, "shares by which the third arm is slowed")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber);
  app.add_option("--repetitions", settings.repetitions, "per share")->check(CLI::PositiveNumber);
  app.add_option("--budget", settings.seconds, "seconds of measuring, per repetition")
      ->check(CLI::PositiveNumber);
  app.add_option("--target-half-width", settings.target_half_width,
                 "stop when the interval is as narrow; 0: use up the seconds")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--block-seconds", settings.block_seconds, "length of a block")
      ->check(CLI::PositiveNumber);
  app.add_option("--threads", settings.threads, "compute threads of each arm")
      ->check(CLI::PositiveNumber);
  app.add_flag("--each", settings.each, "print every repetition");
  app.add_option("--seed", settings.first_seed, "of the first repetition's order of blocks");
  app.add_option("--json", settings.json_path, "also write the rows to this file");
  CLI11_PARSE(app, argc, argv);
  return run(settings);
}

}  // namespace
}  // namespace dettax

int main(int argc, char** argv) {
  return dettax::bench_main("resolution_bench",
                            [&] { return dettax::run_command_line(argc, argv); });
}
