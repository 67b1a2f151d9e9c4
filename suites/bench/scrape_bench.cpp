// Scrapes of a server that tells of two hundred cases with all their causes: at a fixed rate for the time of one, then as fast as they
// come for the memory. Exit code 1 if the 99th percentile is over 50 ms, or if memory after the last scrape is more than a tenth above
// that after the first tenth of them.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exporters/prometheus/metrics_server.h"
#include "harness/base/error.h"
#include "harness/base/format.h"
#include "harness/plan/knobs.h"
#include "results/reason.h"
#include "results/run_folder.h"
#include "suites/bench/bench_main.h"

namespace dettax {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kMaxSeconds = 0.050, kMaxGrowth = 1.1;

ArmResult arm_result(const std::string& name, double seconds) {
  ArmResult arm;
  arm.arm = name;
  arm.mode = name == "control" ? "fast" : name;
  arm.claims_reproducible = name == "deterministic";
  for (int i = 0; i < 16; ++i) {
    Block block;
    block.position = i;
    block.step_time_seconds = {{seconds, seconds * 1.01, seconds * 0.99}};
    arm.blocks.push_back(block);
  }
  arm.step_time_seconds = Estimate{seconds, seconds * 0.99, seconds * 1.01, 16};
  arm.tokens_per_second = 512 / seconds;
  arm.memory_peak_bytes = 325058560;
  return arm;
}

Record record_of(const Case& planned, const std::string& run_id) {
  Record record;
  record.run_id = run_id;
  record.suite = "bench";
  record.planned = planned;
  record.case_id = planned.id();
  record.environment.host = "node1";
  record.environment.cpu_model = "a processor";
  record.environment.started_at = "2026-03-01T12:00:00Z";
  record.arms = {arm_result("fast", 0.0123), arm_result("control", 0.0123),
                 arm_result("deterministic", 0.0125)};
  Tax tax;
  tax.arm = "deterministic";
  tax.overhead_ratio = {1.016, 1.008, 1.03, 8};
  tax.published = true;
  record.taxes = {tax};
  record.evidence.arms = {{"deterministic",
                           true,
                           {{"same_process", true, true, 480, 2, "", "", "", ""},
                            {"relaunch", true, true, 480, 2, "", "", "", ""}},
                           "",
                           "",
                           {}}};
  record.verdict = make_verdict("within_limit", "");
  ArmProfile profile;
  profile.arm = "deterministic";
  for (const char* mechanism :
       {"compute", "memory_fill", "exposed_comm.wait", "copy", "idle.host", "profiler", "unmapped"})
    profile.mechanisms.push_back({mechanism, 1e-3, 1.1e-3, 1e-4});
  record.profiles = {profile};
  Ablation ablation;
  ablation.arm = "deterministic";
  for (const KnobInfo& knob : knob_table()) {
    KnobCost cost;
    cost.knob = knob.name;
    cost.recording_seconds = 1e-5;
    ablation.knobs.push_back(cost);
  }
  record.ablation = ablation;
  return record;
}

void make_run(const std::filesystem::path& parent, int cases) {
  Suite suite;
  suite.name = "bench";
  for (int i = 0; i < cases; ++i) {
    Case planned;
    planned.model.name = "gpt-tiny";
    planned.label = fmt::format("n{}", i);
    suite.cases.push_back(planned);
  }
  RunFolder run = RunFolder::create(parent, suite);
  for (const Case& planned : suite.cases) run.write_record(record_of(planned, run.run_id()));
}

// One GET on a connection of its own; what came, headers and all.
std::string scrape(int port) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    throw Error(ErrorKind::infrastructure, "the server does not answer");
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  if (::send(descriptor, request.data(), request.size(), 0) < 0)
    throw Error(ErrorKind::infrastructure, "the request was not taken");
  std::string text;
  std::vector<char> piece(1U << 16U);
  for (ssize_t read = 0; (read = ::recv(descriptor, piece.data(), piece.size(), 0)) > 0;)
    text.append(piece.data(), static_cast<size_t>(read));
  ::close(descriptor);
  if (text.find("dettax_overhead_ratio{") == std::string::npos)
    throw Error(ErrorKind::infrastructure, "a scrape came without metrics");
  return text;
}

double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  double size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

std::vector<double> at_a_rate(int port, double per_second, double seconds) {
  std::vector<double> times;
  const auto start = Clock::now();
  const auto count = static_cast<int>(per_second * seconds);
  for (int i = 0; i < count; ++i) {
    std::this_thread::sleep_until(start + std::chrono::duration_cast<Clock::duration>(
                                              std::chrono::duration<double>(i / per_second)));
    const auto before = Clock::now();
    scrape(port);
    times.push_back(std::chrono::duration<double>(Clock::now() - before).count());
  }
  std::sort(times.begin(), times.end());
  return times;
}

// Resident memory after each tenth of the scrapes.
std::vector<double> memory_over(int port, int scrapes) {
  constexpr int kParts = 10;
  std::vector<double> bytes;
  for (int part = 0; part < kParts; ++part) {
    for (int i = 0; i < scrapes / kParts; ++i) scrape(port);
    bytes.push_back(resident_bytes());
  }
  return bytes;
}

int run(int argc, const char* const* argv) {
  double seconds = 60, rate = 50;
  int scrapes = 2000, cases = 200;
  CLI::App app("scrape_bench");
  app.add_option("--seconds", seconds, "how long at a fixed rate (60)");
  app.add_option("--rate", rate, "scrapes a second (50)");
  app.add_option("--scrapes", scrapes, "then so many as fast as they come (2000)");
  app.add_option("--cases", cases, "cases with results (200)");
  app.parse(argc, argv);
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("dettax-scrape-{}", ::getpid());
  make_run(folder, cases);
  ServerSettings settings;
  settings.address = "127.0.0.1:0";
  settings.runs_folder = folder;
  const MetricsServer server(settings);
  const std::string text = scrape(server.port());
  const std::vector<double> times = at_a_rate(server.port(), rate, seconds);
  const std::vector<double> memory = memory_over(server.port(), scrapes);
  std::filesystem::remove_all(folder);
  const double p99 = times.at(times.size() * 99 / 100);
  fmt::print("{} cases, {} series, {}\n", cases, std::count(text.begin(), text.end(), '{'),
             format_bytes(static_cast<double>(text.size())));
  fmt::print("{} scrapes at {} a second: median {}, 99th percentile {} (limit {})\n", times.size(),
             rate, format_seconds(times.at(times.size() / 2)), format_seconds(p99),
             format_seconds(kMaxSeconds));
  fmt::print("resident memory after each tenth of {} scrapes more:", scrapes);
  for (const double bytes : memory) fmt::print(" {}", format_bytes(bytes));
  fmt::print("\n");
  return p99 <= kMaxSeconds && memory.back() <= kMaxGrowth * memory.front() ? 0 : 1;
}

}  // namespace
}  // namespace dettax

int main(int argc, char** argv) {
  return dettax::bench_main("scrape_bench", [&] { return dettax::run(argc, argv); });
}
