// How long ten thousand records of usual size take in every format, how large the files are, and the process's peak memory; then the
// size of the page of two hundred cases. Exit code 1 if all formats together take over 10 s or 1 GB, or the page over 5 MB.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "exporters/exporter.h"
#include "harness/base/format.h"
#include "harness/base/random.h"
#include "results/reason.h"
#include "results/run_folder.h"
#include "suites/bench/bench_main.h"

namespace dettax {
namespace {

constexpr double kMaxSeconds = 10, kMaxBytes = 1e9, kMaxPageBytes = 5e6;
constexpr int kRounds = 8, kStepsPerBlock = 4, kRanks = 2, kPageCases = 200;

// Step times that scatter by a per cent, so that digits are as many as in a real run.
class Times {
 public:
  double next(double seconds) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return seconds * (1 + 0.01 * static_cast<double>(state_ >> 40U) / (1U << 24U));
  }

 private:
  uint64_t state_ = 1;
};

ArmResult arm_result(const std::string& name, bool claims, double seconds, Times& times) {
  ArmResult arm;
  arm.arm = name;
  arm.mode = claims ? name : "fast";
  arm.mode_hash = "0123456789abcdef";
  arm.claims_reproducible = claims;
  for (const char* knob : {"gemm", "attention", "embedding", "norm", "loss", "grad_norm",
                           "collectives", "schedule", "memory_fill", "overlap"}) {
    arm.knobs[knob] = arm.engaged[knob] = claims ? "ordered" : "arrival";
    if (claims) arm.changed.push_back({knob, "arrival", "ordered", {"backward/attention"}});
  }
  for (int block = 0; block < 2 * kRounds; ++block) {
    Block one;
    one.round = block / 2;
    one.position = 4 * block;
    one.start_seconds = 0.3 * block;
    one.step_time_seconds.assign(kRanks, {});
    for (auto& rank : one.step_time_seconds) {
      for (int step = 0; step < kStepsPerBlock; ++step) rank.push_back(times.next(seconds));
    }
    arm.blocks.push_back(std::move(one));
  }
  arm.step_time_seconds = Estimate{times.next(seconds), seconds, seconds * 1.01, 2 * kRounds};
  arm.tokens_per_second = 512 / seconds;
  arm.memory_peak_bytes = 325058560;
  return arm;
}

Evidence evidence_of(const std::vector<ArmResult>& arms) {
  Evidence evidence;
  evidence.fast_differed = true;
  for (const ArmResult& arm : arms) {
    ArmEvidence one;
    one.arm = arm.arm;
    one.reproducible = arm.claims_reproducible;
    for (const char* scope : {"same_process", "relaunch"}) {
      ScopeEvidence bits{scope, true, arm.claims_reproducible, 1552, 2, "", "", "", ""};
      if (!bits.equal)
        bits.first_difference =
            "step 0, rank 0, forward/head_loss: embedding.weight.grad differs (528 later entries "
            "differ downstream)";
      one.scopes.push_back(bits);
    }
    evidence.arms.push_back(one);
  }
  return evidence;
}

// Four arms of 16 blocks: about twice the record of a case of the quick suite.
Record usual_record(int number, Times& times) {
  Record record;
  record.run_id = "20260301T120000Z-bench";
  record.suite = "bench";
  record.planned.model.name = "gpt-tiny";
  record.planned.layout.dp = kRanks;
  record.planned.batch = {2, 4, 128};
  record.planned.label = fmt::format("n{}", number);
  record.case_id = record.planned.id();
  record.environment.host = "node1";
  record.environment.cpu_model = "a processor";
  record.environment.started_at = "2026-03-01T12:00:00Z";
  record.arms = {arm_result("fast", false, 0.0123, times),
                 arm_result("control", false, 0.0123, times),
                 arm_result("deterministic", true, 0.0125, times),
                 arm_result("invariant", true, 0.0127, times)};
  for (const char* arm : {"deterministic", "invariant"}) {
    Tax tax;
    tax.arm = arm;
    tax.overhead_ratio = {times.next(1.01), 1.008, 1.03, kRounds};
    tax.control_ratio = Estimate{1.0008, 0.9961, 1.0055, kRounds};
    tax.min_detectable_overhead_ratio = 1.0071;
    tax.published = true;
    record.taxes.push_back(tax);
  }
  record.evidence = evidence_of(record.arms);
  record.verdict = make_verdict("within_limit", "deterministic: +1.6 %, limit +10.0 %.");
  record.duration_seconds = 21.5;
  return record;
}

std::vector<Record> usual_records(int count) {
  Times times;
  std::vector<Record> records;
  records.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) records.push_back(usual_record(i, times));
  return records;
}

double peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Through the file system, as the program writes them.
uintmax_t write_one(const Exporter& exporter, const std::vector<Record>& records) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / fmt::format("dettax-export-bench-{}", ::getpid());
  write_file_atomically(file, [&](std::ostream& out) { exporter.write(out, records, {}); });
  const uintmax_t size = std::filesystem::file_size(file);
  std::filesystem::remove(file);
  return size;
}

int run(int argc, const char* const* argv) {
  int count = 10000;
  CLI::App app("export_bench");
  app.add_option("--records", count, "how many records (10000)");
  app.parse(argc, argv);
  const std::vector<Record> records = usual_records(count);
  fmt::print("{} records of 4 arms, {} blocks an arm, {} ranks, {} steps a block\n", count,
             2 * kRounds, kRanks, kStepsPerBlock);
  const double held_bytes = peak_bytes();
  double total_seconds = 0;
  for (const Exporter& exporter : exporter_table()) {
    const auto start = std::chrono::steady_clock::now();
    const uintmax_t size = write_one(exporter, records);
    const double seconds = seconds_since(start);
    total_seconds += seconds;
    fmt::print("{:<18} {:>8} {:>10}\n", exporter.format, format_seconds(seconds),
               format_bytes(static_cast<double>(size)));
  }
  const std::vector<Record> few = usual_records(kPageCases);
  const auto page_bytes = static_cast<double>(write_one(exporter_named("html"), few));
  fmt::print(
      "together {} (limit {} s), peak memory {} of which {} are the records (limit {}), page of {} "
      "cases {} (limit {})\n",
      format_seconds(total_seconds), kMaxSeconds, format_bytes(peak_bytes()),
      format_bytes(held_bytes), format_bytes(kMaxBytes), kPageCases, format_bytes(page_bytes),
      format_bytes(kMaxPageBytes));
  const bool good =
      total_seconds <= kMaxSeconds && peak_bytes() <= kMaxBytes && page_bytes <= kMaxPageBytes;
  return good ? 0 : 1;
}

}  // namespace
}  // namespace dettax

int main(int argc, char** argv) {
  return dettax::bench_main("export_bench", [&] { return dettax::run(argc, argv); });
}
