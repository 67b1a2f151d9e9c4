// What spreading a batch over data-parallel ranks costs: the same global batch on one rank with two threads and on two ranks with one
// thread each, alternately; the two ranks are threads of a process or, with --launcher mpirun, processes. It prints step times and the
// throughput of the ranks over that of the threads. Exit code 1 if the upper end of its 95 % interval is under what --wanted says.
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/exit_code.h"
#include "harness/launch/process_launcher.h"
#include "harness/launch/rank_pool.h"
#include "harness/launch/rank_variables.h"
#include "harness/launch/timed_group.h"
#include "harness/measure/measure.h"
#include "harness/plan/suite.h"
#include "suites/bench/bench_main.h"

namespace dettax {
namespace {

struct Settings {
  std::string model = "gpt-small", mode = "fast", launcher = "threads";
  int64_t batch = 8, sequence_length = 128;
  int zero_stage = 0;
  double seconds = 30;
  double wanted = 0.9;
};

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

// The program beside this one in the build folder, which serves as worker.
std::string worker_program() {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return (here.parent_path() / "dettax").string();
}

std::unique_ptr<Launcher> make_launcher(const std::string& launcher) {
  LaunchSettings launch;
  launch.program = worker_program();
  launch.log_folder = std::filesystem::temp_directory_path();
  if (launcher == "threads") return make_thread_launcher(launch);
  ProcessSettings process;
  process.job = find_job({}, process_variables());
  process.job.cores_per_host = available_cores();
  return make_process_launcher(launch, process);
}

int run(const Settings& settings) {
  const Mode mode = load_mode(settings.mode);
  const Case one = workload(settings, 1), two = workload(settings, 2);
  const auto one_launcher = make_launcher("threads");
  const auto two_launcher = make_launcher(settings.launcher);
  const auto one_group = one_launcher->start({"one rank", one, mode}, "scaling-one-rank");
  const auto two_group = two_launcher->start({"two ranks", two, mode}, "scaling-two-ranks");
  TimedGroup threads(*one_group), ranks(*two_group);
  MeasureSettings measuring;
  measuring.budget_seconds = settings.seconds;
  measuring.rounds_max = 1000;
  const Measurement m = measure({&threads, &ranks}, measuring, 1, steady_clock(), {});
  if (m.failure) throw Error(m.failure->kind, m.failure->message);
  const auto ratio = paired_ratio(m.blocks[1], m.blocks[0], measuring.confidence);
  const auto time_one = step_time(m.blocks[0], measuring.confidence);
  const auto time_two = step_time(m.blocks[1], measuring.confidence);
  if (!ratio || !time_one || !time_two)
    throw Error(ErrorKind::infrastructure, "too few rounds for an interval: give more --budget");
  const double high = 1 / ratio->low;
  fmt::print("{}, {}: batch {} x {}, ranks by {}\n", settings.model, settings.mode, settings.batch,
             settings.sequence_length, settings.launcher);
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
  app.add_option("--launcher", settings.launcher, "of the two ranks")
      ->check(CLI::IsMember({"threads", "mpirun"}));
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
