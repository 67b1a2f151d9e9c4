// How many bad nodes acceptance finds in simulated fleets, and how many fleets without one it accuses. Nothing of the thresholds is taken
// from here: they follow from configs/acceptance/default.yaml and peers.h. Exit code 1 if under 95 % of the bad nodes are found, or over
// 1 % of the clean fleets have a node named.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "harness/base/random.h"
#include "results/analysis/acceptance/acceptance.h"
#include "results/reason.h"
#include "suites/bench/bench_main.h"

namespace dettax {
namespace {

constexpr double kLeastFound = 0.95, kMostAccused = 0.01;
constexpr int kRanks = 8, kBlocks = 6, kSteps = 2;

// A node's own speed, as a logarithm. Accelerators of one model differ by per cents (power, temperature, binning).
enum class Spread { normal, halls, skewed, wide };
constexpr std::array kSpreads = {Spread::normal, Spread::halls, Spread::skewed, Spread::wide};
constexpr std::array kSpreadNames = {"normal, 1 %", "two halls 1.5 % apart, 0.7 %",
                                     "0.7 % and a slow tail of 0.35 %", "normal, 2 %"};
constexpr std::array kSizes = {64, 128, 256, 512, 1024};

enum class Bad { slow_node, odd_ratio, slow_rank };
constexpr std::array kBadCodes = {"slow_node", "odd_ratio", "slow_rank"};
// Of bad nodes: the published stragglers slowed a job by about a tenth.
constexpr double kSlowLeast = 0.10, kSlowMost = 0.30;
constexpr double kOddLeast = 0.08, kOddMost = 0.25;
// Of all: what a node's ratio, its ranks, a measurement and a step scatter by.
constexpr double kRatioSpread = 0.004, kRankSpread = 0.008, kMeasuring = 0.003, kStepNoise = 0.01;

class Draws {
 public:
  explicit Draws(uint64_t stream) : stream_(stream) {}
  double uniform_of(double low, double high) { return low + (high - low) * uniform(next()[0]); }
  double normal_of(double deviation) {
    const auto words = next();
    return deviation * normal(words[0], words[1]);
  }
  double exponential_of(double mean) { return -mean * std::log(uniform(next()[0])); }
  size_t below(size_t n) { return static_cast<size_t>(next()[0]) % n; }

 private:
  std::array<uint32_t, 4> next() {
    return random_words({1, RandomPurpose::analysis, 9}, stream_, count_++);
  }
  uint64_t stream_, count_ = 0;
};

double own_speed(Spread spread, Draws& draws) {
  switch (spread) {
    case Spread::normal:
      return draws.normal_of(0.01);
    case Spread::halls:
      return draws.normal_of(0.007) + (draws.uniform_of(0, 1) < 0.5 ? -0.0075 : 0.0075);
    case Spread::skewed:
      return draws.normal_of(0.007) + draws.exponential_of(0.0035);
    case Spread::wide:
      return draws.normal_of(0.02);
  }
  return 0;
}

struct Fault {
  size_t node = 0;
  Bad kind = Bad::slow_node;
  int rank = 0;
};

Estimate estimate(double value, double error) {
  return {value, value * std::exp(-2.365 * error), value * std::exp(2.365 * error), 8};
}

Record node_record(size_t node, Spread spread, const Fault* fault, Draws& draws) {
  Record record;
  record.case_id = "gpt.bf16.dp8.t1.b64x4096";
  record.run_id = fmt::format("run-{:04}", node);
  record.environment.host = fmt::format("gpu{:04}", node);
  double speed = std::log(0.5) + own_speed(spread, draws);
  double ratio = std::log(1.08) + draws.normal_of(kRatioSpread);
  std::array<double, kRanks> rank_excess{};
  for (double& one : rank_excess) one = draws.normal_of(kRankSpread);
  if (fault != nullptr) {
    const double slow = std::log1p(draws.uniform_of(kSlowLeast, kSlowMost));
    const double odd = std::log1p(draws.uniform_of(kOddLeast, kOddMost));
    if (fault->kind == Bad::slow_node) speed += slow;
    if (fault->kind == Bad::odd_ratio) ratio += odd;
    if (fault->kind == Bad::slow_rank) rank_excess.at(static_cast<size_t>(fault->rank)) += slow;
  }
  ArmResult fast, deterministic;
  fast.arm = fast.mode = "fast";
  for (int b = 0; b < kBlocks; ++b) {
    Block block;
    for (const double excess : rank_excess) {
      std::vector<double>& steps = block.step_time_seconds.emplace_back();
      for (int step = 0; step < kSteps; ++step)
        steps.push_back(std::exp(speed + excess + draws.normal_of(kStepNoise)));
    }
    fast.blocks.push_back(std::move(block));
  }
  const double slowest = *std::ranges::max_element(rank_excess);
  fast.step_time_seconds =
      estimate(std::exp(speed + slowest + draws.normal_of(kMeasuring)), kMeasuring);
  deterministic.arm = deterministic.mode = "deterministic";
  deterministic.claims_reproducible = true;
  const double measured = std::exp(ratio + draws.normal_of(kMeasuring));
  deterministic.step_time_seconds = estimate(fast.step_time_seconds->value * measured, kMeasuring);
  record.arms = {fast, deterministic};
  record.taxes = {
      {"deterministic", estimate(measured, kMeasuring), std::nullopt, 1.01, true, 0, {}}};
  record.evidence.arms = {{"deterministic",
                           true,
                           {{"same_process", true, true, 100, 2, "", "", "", ""},
                            {"relaunch", true, true, 100, 2, "", "", "", ""}},
                           "",
                           "",
                           {}}};
  record.verdict = make_verdict("within_limit", "");
  return record;
}

struct Tally {
  int clean = 0, accused = 0;            // fleets without a bad node
  std::array<int, 3> bad{}, found{};     // nodes, by kind
  int healthy = 0, healthy_accused = 0;  // nodes, in fleets that have bad ones
  double seconds = 0;
  int fleets = 0;
  void add(const Tally& other) {
    clean += other.clean;
    accused += other.accused;
    for (size_t i = 0; i < bad.size(); ++i) {
      bad.at(i) += other.bad.at(i);
      found.at(i) += other.found.at(i);
    }
    healthy += other.healthy;
    healthy_accused += other.healthy_accused;
  }
  int all_bad() const { return bad[0] + bad[1] + bad[2]; }
  int all_found() const { return found[0] + found[1] + found[2]; }
};

std::vector<Fault> draw_faults(size_t size, size_t count, Draws& draws) {
  std::vector<Fault> faults;
  while (faults.size() < count) {
    const Fault fault{draws.below(size), static_cast<Bad>(draws.below(kBadCodes.size())),
                      static_cast<int>(draws.below(kRanks))};
    if (std::ranges::find(faults, fault.node, &Fault::node) == faults.end())
      faults.push_back(fault);
  }
  return faults;
}

// Found is: its node, its kind and, for a rank, its number are named.
bool is_found(const Fault& fault, const Acceptance& acceptance) {
  const std::string node = fmt::format("gpu{:04}", fault.node);
  return std::ranges::any_of(acceptance.findings, [&](const AcceptanceFinding& finding) {
    return finding.node == node && finding.code == kBadCodes.at(static_cast<size_t>(fault.kind)) &&
           (fault.kind != Bad::slow_rank || finding.rank == fault.rank);
  });
}

void judge_fleet_of(size_t size, Spread spread, size_t bad, const AcceptanceRules& rules,
                    uint64_t stream, Tally& tally) {
  Draws draws(stream);
  const std::vector<Fault> faults = draw_faults(size, bad, draws);
  std::vector<AcceptanceInput> inputs;
  for (size_t node = 0; node < size; ++node) {
    const auto fault = std::ranges::find(faults, node, &Fault::node);
    inputs.push_back(
        {node_record(node, spread, fault == faults.end() ? nullptr : &*fault, draws), 1});
  }
  const auto start = std::chrono::steady_clock::now();
  const Acceptance acceptance = judge_acceptance(inputs, rules);
  tally.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ++tally.fleets;
  if (faults.empty()) {
    ++tally.clean;
    tally.accused += acceptance.exit_code == ExitCode::pass ? 0 : 1;
    return;
  }
  for (const Fault& fault : faults) {
    const auto kind = static_cast<size_t>(fault.kind);
    ++tally.bad.at(kind);
    tally.found.at(kind) += is_found(fault, acceptance) ? 1 : 0;
  }
  for (size_t node = 0; node < size; ++node) {
    if (std::ranges::find(faults, node, &Fault::node) != faults.end()) continue;
    ++tally.healthy;
    tally.healthy_accused += acceptance.nodes.at(node).status == Status::pass ? 0 : 1;
  }
}

std::string share(int part, int whole) {
  return whole == 0 ? "-" : fmt::format("{:.2f} %", 100.0 * part / whole);
}

void print_row(const std::string& label, const Tally& tally) {
  fmt::print("{:<42} {:>12} {:>9}", label, fmt::format("{}/{}", tally.accused, tally.clean),
             share(tally.accused, tally.clean));
  for (size_t i = 0; i < tally.bad.size(); ++i)
    fmt::print(" {:>11}", fmt::format("{}/{}", tally.found.at(i), tally.bad.at(i)));
  fmt::print(" {:>9} {:>16}\n", share(tally.all_found(), tally.all_bad()),
             fmt::format("{}/{}", tally.healthy_accused, tally.healthy));
}

int run(int fleets) {
  const AcceptanceRules rules = load_acceptance_rules("default");
  fmt::print("{:<42} {:>12} {:>9} {:>11} {:>11} {:>11} {:>9} {:>16}\n", "fleet", "clean accused",
             "share", "slow node", "odd ratio", "slow rank", "found", "healthy accused");
  Tally all;
  uint64_t stream = 1;
  for (size_t s = 0; s < kSpreads.size(); ++s) {
    for (const int size : kSizes) {
      Tally tally;
      for (int i = 0; i < fleets; ++i)
        judge_fleet_of(static_cast<size_t>(size), kSpreads.at(s), 0, rules, stream++, tally);
      for (size_t bad = 1; bad <= 3; ++bad) {
        for (int i = 0; i < fleets / 4; ++i)
          judge_fleet_of(static_cast<size_t>(size), kSpreads.at(s), bad, rules, stream++, tally);
      }
      print_row(fmt::format("{:>4} nodes, {}", size, kSpreadNames.at(s)), tally);
      std::fflush(stdout);
      all.add(tally);
      if (size == kSizes.back() && s + 1 == kSpreads.size())
        fmt::print("judging {} nodes takes {:.0f} ms (mean of {})\n", size,
                   1e3 * tally.seconds / tally.fleets, tally.fleets);
    }
  }
  print_row("all", all);
  const double accused = static_cast<double>(all.accused) / all.clean;
  const double found = static_cast<double>(all.all_found()) / all.all_bad();
  fmt::print("clean fleets accused: {:.2f} % (limit 1 %); bad nodes found: {:.1f} % (limit 95 %)\n",
             100 * accused, 100 * found);
  return accused <= kMostAccused && found >= kLeastFound ? 0 : 1;
}

}  // namespace
}  // namespace dettax

int main(int argc, char** argv) {
  CLI::App app{
      "Bad nodes that acceptance finds in simulated fleets, and clean fleets that it accuses."};
  int fleets = 100;
  app.add_option("--fleets", fleets, "clean fleets of each size and spread")
      ->check(CLI::Range(4, 1000000));
  CLI11_PARSE(app, argc, argv);
  return dettax::bench_main("accept_bench", [&] { return dettax::run(fleets); });
}
