// What ledgers cost: a step that is watched against one that is not, fingerprints against reading the same memory, and two ledgers of ten
// million entries compared. Exit code 1 if the depth step costs over 3 % of a step or op over 25 %, a fingerprint runs at less than 0.6
// of one core's read bandwidth, or the comparison takes over 5 s or 500 MB.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "harness/base/format.h"
#include "harness/comm/communicator.h"
#include "harness/device/device.h"
#include "harness/evidence/ledger_file.h"
#include "harness/evidence/ledger_source.h"
#include "harness/plan/suite.h"
#include "suites/bench/bench_main.h"

namespace dettax {
namespace {

constexpr double kMaxStepCost = 0.03, kMaxOpCost = 0.25, kMinBandwidth = 0.6;
constexpr double kMaxSeconds = 5, kMaxBytes = 500e6;

using Clock = std::chrono::steady_clock;

double seconds_of(const auto& body) {
  const auto start = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

// Of the tenth that was disturbed least: whoever else uses the machine only adds.
double undisturbed(std::vector<double> seconds) {
  const auto tenth = std::ssize(seconds) / 10;
  std::ranges::nth_element(seconds, seconds.begin() + tenth);
  return seconds[static_cast<size_t>(tenth)];
}

// --- a watched step --------------------------------------------------------------------------------------------------------------

// A step without and with a ledger of each depth, in turn.
class StepCost {
 public:
  StepCost(const Case& planned, const Mode& mode, int rounds) : rounds_(rounds) {
    const auto device = make_cpu_device(planned.topology.threads_per_rank, false);
    run_ranks(1, false, [&](Communicator& communicator) {
      TrainStep step(planned, mode, *device, communicator);
      step.reset(planned.seed);
      for (int i = 0; i < 3; ++i) step.step();
      for (int i = 0; i < rounds_; ++i) round(step, *device);
    });
  }
  double plain_seconds() const { return undisturbed(plain_); }
  double cost(LedgerDepth depth) const {
    return undisturbed(watched_[static_cast<size_t>(depth)]) / plain_seconds() - 1;
  }

 private:
  void round(TrainStep& step, Device& device) {
    plain_.push_back(seconds_of([&] { step.step(); }));
    for (const LedgerDepth depth : {LedgerDepth::step, LedgerDepth::layer, LedgerDepth::op}) {
      watched_[static_cast<size_t>(depth)].push_back(watched_seconds(step, device, depth));
      plain_.push_back(seconds_of([&] { step.step(); }));
    }
  }
  // With all that a ledger takes of a step, and the writing.
  double watched_seconds(TrainStep& step, Device& device, LedgerDepth depth) {
    LedgerObserver observer(
        device, depth, [&](int64_t number, const LedgerNames& names, const LedgerColumns& columns) {
          writer_.append(0, number, names, columns);
        });
    step.observe(&observer);
    const double seconds = seconds_of([&] {
      observer.begin_step(number_++);
      const StepResult result = step.step();
      observer.add("result", "loss", fingerprint(&result.loss, 1, sizeof result.loss));
      step.fingerprint([&](std::string_view name, const Fingerprint& value) {
        observer.add("state", name, value);
      });
      observer.end_step();
    });
    step.observe(nullptr);
    return seconds;
  }

  int rounds_;
  int64_t number_ = 0;
  std::ofstream nowhere_{"/dev/null"};
  LedgerWriter writer_{nowhere_, LedgerHead{}, 1};
  std::vector<double> plain_;
  std::array<std::vector<double>, 3> watched_;
};

bool watched_steps(int rounds, const std::string& model) {
  Suite suite = load_suite("quick");
  Case planned = suite.cases.front();
  planned.model = load_model(model);
  planned.batch = {4, 4, 256};
  const StepCost cost(planned, suite.modes.front(), rounds);
  const double step = cost.cost(LedgerDepth::step), op = cost.cost(LedgerDepth::op);
  fmt::print(
      "{}, {} threads, {} tokens a step: step {}; with a ledger of depth step {} (limit {}), layer "
      "{}, "
      "op {} (limit {})\n",
      planned.model.name, planned.topology.threads_per_rank, planned.tokens_per_step(),
      format_seconds(cost.plain_seconds()), format_percent(step, 1),
      format_percent(kMaxStepCost, 0), format_percent(cost.cost(LedgerDepth::layer), 1),
      format_percent(op, 1), format_percent(kMaxOpCost, 0));
  return step <= kMaxStepCost && op <= kMaxOpCost;
}

// --- fingerprints ----------------------------------------------------------------------------------------------------------------

uint64_t read_sum(const std::vector<uint64_t>& words, size_t begin, size_t end) {
  return std::accumulate(words.begin() + static_cast<std::ptrdiff_t>(begin),
                         words.begin() + static_cast<std::ptrdiff_t>(end), uint64_t{0});
}

// Bytes a second of `body(begin, end)` over all words, each thread a part of them; the best of five.
double bandwidth(const std::vector<uint64_t>& words, size_t threads, const auto& body) {
  double best = 1e9;
  for (int repeat = 0; repeat < 5; ++repeat) {
    best = std::min(best, seconds_of([&] {
                      std::vector<std::jthread> team;
                      for (size_t t = 0; t < threads; ++t) {
                        team.emplace_back([&, t] {
                          body(words.size() * t / threads, words.size() * (t + 1) / threads);
                        });
                      }
                    }));
  }
  return static_cast<double>(words.size() * sizeof(uint64_t)) / best;
}

bool fingerprints() {
  const std::vector<uint64_t> words(size_t{1} << 25U, 0x9E3779B97F4A7C15U);  // 256 MiB
  std::atomic<uint64_t> sink{0};
  const auto read = [&](size_t begin, size_t end) { sink += read_sum(words, begin, end); };
  const auto mix = [&](size_t begin, size_t end) {
    sink += fingerprint(words.data() + begin, 2 * (end - begin), 4, 2 * begin).lane0;
  };
  const double reading = bandwidth(words, 1, read), one = bandwidth(words, 1, mix);
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const double all = bandwidth(words, cores, mix);
  fmt::print(
      "fingerprint {}/s on one core, {:.2f} of its read bandwidth {}/s (limit {}); {:.2f} times "
      "that "
      "on {}\n",
      format_bytes(one), one / reading, format_bytes(reading), kMinBandwidth, all / one, cores);
  return one >= kMinBandwidth * reading;
}

// --- comparison ------------------------------------------------------------------------------------------------------------------

// 8 ranks, 100 steps, 12,500 names; entry `changed` of all is another.
void write_large(const std::filesystem::path& path, int64_t entries, int64_t changed) {
  constexpr int64_t kRanks = 8, kNames = 12500;
  std::ofstream out(path, std::ios::binary);
  LedgerHead head;
  head.case_id = "bench";
  head.steps = entries / (kRanks * kNames);
  LedgerWriter writer(out, head, kRanks);
  LedgerNames names;
  for (int64_t n = 0; n < kNames; ++n)
    names.number_of(fmt::format("forward/layer{}/op{}", n / 50, n % 50), "y");
  LedgerColumns columns;
  int64_t number = 0;
  for (int64_t step = 0; step < head.steps; ++step) {
    for (size_t rank = 0; rank < kRanks; ++rank) {
      columns.clear();
      for (uint32_t n = 0; n < names.size(); ++n, ++number) {
        const auto seed = static_cast<uint64_t>(number);
        columns.add(n,
                    {fingerprint_key(seed), fingerprint_key(seed + (number == changed ? 1 : 2))});
      }
      writer.append(rank, step, names, columns);
    }
  }
  writer.finish();
}

bool comparison(int64_t entries) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("dettax-ledger-bench-{}", ::getpid());
  std::filesystem::create_directories(folder);
  const double written = seconds_of([&] { write_large(folder / "a", entries, -1); });
  write_large(folder / "b", entries, -1);
  write_large(folder / "c", entries, entries / 2);
  bool equal = false, differs = false;
  const auto compare = [&](const char* other) {
    return compare_ledgers(*open_ledger(folder / "a"), *open_ledger(folder / other));
  };
  const double same = seconds_of([&] { equal = compare("b").equal; });
  const double changed = seconds_of([&] { differs = compare("c").differing == 1; });
  const auto size = static_cast<double>(std::filesystem::file_size(folder / "a"));
  std::filesystem::remove_all(folder);
  fmt::print(
      "ledgers of {} entries, {} each, written in {}: compared in {}, with one difference in {} "
      "(limit {} s); peak memory {} (limit {})\n",
      entries, format_bytes(size), format_seconds(written), format_seconds(same),
      format_seconds(changed), kMaxSeconds, format_bytes(peak_bytes()), format_bytes(kMaxBytes));
  return equal && differs && std::max(same, changed) <= kMaxSeconds && peak_bytes() <= kMaxBytes;
}

int run(int argc, const char* const* argv) {
  int64_t entries = 10'000'000;
  int rounds = 40;
  std::string model = "gpt-tiny";
  CLI::App app("ledger_bench");
  app.add_option("--entries", entries, "of each ledger compared (10000000); 0: none");
  app.add_option("--rounds", rounds, "of steps with and without a ledger (40)");
  app.add_option("--model", model, "whose steps are watched (gpt-tiny)");
  app.parse(argc, argv);
  bool good = entries == 0 || comparison(entries);  // first: the peak of memory is the process's
  good = fingerprints() && good;
  std::fflush(stdout);
  good = watched_steps(rounds, model) && good;
  return good ? 0 : 1;
}

}  // namespace
}  // namespace dettax

int main(int argc, char** argv) {
  return dettax::bench_main("ledger_bench", [&] { return dettax::run(argc, argv); });
}
