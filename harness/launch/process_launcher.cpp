#include "harness/launch/process_launcher.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "harness/base/text.h"
#include "harness/evidence/ledger.h"
#include "harness/launch/fill_mean.h"
#include "harness/launch/rank_faults.h"
#include "harness/launch/rank_processes.h"
#include "harness/launch/trace_files.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

// What MPI may take to connect all hosts, over and above a start.
constexpr double kConnectSeconds = 20;

// What all ranks say alike, and where they do not, each value with a rank that has it.
std::map<std::string, std::string> merged_engaged(const std::vector<Reply>& replies) {
  std::map<std::string, std::string> merged;
  for (const auto& [name, first] : replies.front().engaged) {
    std::vector<std::string> words = {first};
    for (size_t rank = 1; rank < replies.size(); ++rank) {
      const auto found = replies[rank].engaged.find(name);
      const std::string value = found == replies[rank].engaged.end() ? "(none)" : found->second;
      if (value == first) continue;
      words.push_back(fmt::format("{} on rank {}", value, rank));
    }
    merged[name] = words.size() == 1 ? first : join(words, "; ");
  }
  return merged;
}

Ledger merged_ledger(const std::vector<Reply>& replies) {
  Ledger whole;
  for (size_t rank = 0; rank < replies.size(); ++rank) {
    std::istringstream text(replies[rank].ledger);
    Ledger part = read_ledger(text, fmt::format("ledger of rank {}", rank));
    if (rank == 0) {
      whole = std::move(part);
      continue;
    }
    for (auto& entries : part.ranks) whole.ranks.push_back(std::move(entries));
  }
  return whole;
}

class ProcessGroup : public ArmGroup {
 public:
  ProcessGroup(const ArmSpec& spec, const LaunchSettings& settings,
               const ProcessSettings& process_settings, const std::string& name)
      : spec_(spec),
        step_limit_seconds_(settings.step_timeout_seconds),
        ranks_(spec, settings, process_settings, name) {
    engaged_ = merged_engaged(
        checked(request::Prepare{spec},
                kPrepareAllowance + kConnectSeconds / settings.step_timeout_seconds));
    engaged_["ranks"] = fmt::format("{}", ranks_.links().size());
    engaged_["launcher"] = to_string(process_settings.starter);
    engaged_["binding"] = binding_word(settings.binding);
    engaged_["nodes"] = nodes_words();
    const Topology& topology = spec.planned.topology;
    if (topology.emulates_links()) engaged_["links"] = link_words(topology) + " (emulated)";
  }

  const ArmSpec& spec() const override { return spec_; }
  const std::map<std::string, std::string>& engaged() const override { return engaged_; }
  int64_t memory_peak_bytes() const override { return memory_peak_bytes_; }
  int64_t process_id() const override { return ranks_.links().front().hello.process_id; }
  Fills fills_per_step() const override { return fills_.per_step(); }
  std::vector<RankPlace> places() const override;
  std::string seats() const override;

  StepsRun run_steps(int steps) override {
    StepsRun run = timed(request::Steps{steps}, steps);
    fills_.add(run.fills, steps);
    return run;
  }
  StepsRun profile_steps(int steps) override { return timed(request::Profile{steps}, steps + 1); }
  void take_traces(const std::filesystem::path& folder) override;
  void write_ledger(uint64_t seed, int steps, const std::filesystem::path& path, uint64_t stress,
                    LedgerDepth depth) override;
  CheckpointsUsed write_ledger_with(const request::WriteLedger& run) override;
  void weaken(Knob knob) override {
    checked(request::Weaken{std::string(knob_name(knob))}, kPrepareAllowance);
  }

 private:
  StepsRun timed(const WorkerRequest& what, int steps);
  std::vector<Reply> request(const WorkerRequest& what, double step_count, bool watch_steps);
  std::vector<Reply> checked(const WorkerRequest& what, double step_count);
  void throw_unless_ok(const std::vector<Reply>& replies) const;
  [[noreturn]] void throw_non_finite(const Reply& failed);
  std::string nodes_words() const;

  ArmSpec spec_;
  double step_limit_seconds_;
  RankProcesses ranks_;
  std::map<std::string, std::string> engaged_;
  int64_t memory_peak_bytes_ = 0;
  FillMean fills_;
};

std::vector<Reply> ProcessGroup::request(const WorkerRequest& what, double step_count,
                                         bool watch_steps) {
  std::vector<Reply> replies = ranks_.request(what, step_limit_seconds_ * step_count, watch_steps);
  for (const Reply& reply : replies) {
    memory_peak_bytes_ = std::max(memory_peak_bytes_, reply.memory_peak_bytes);
  }
  return replies;
}

std::vector<Reply> ProcessGroup::checked(const WorkerRequest& what, double step_count) {
  std::vector<Reply> replies = request(what, step_count, false);
  throw_unless_ok(replies);
  return replies;
}

// A rank that heard of a failure from the one that failed says so: "rank 1: ...".
bool heard_of_it(const Reply& reply) { return reply.message.starts_with("rank "); }

void ProcessGroup::throw_unless_ok(const std::vector<Reply>& replies) const {
  const auto failed = [](const Reply& reply) { return !reply.ok; };
  auto found = std::find_if(replies.begin(), replies.end(),
                            [](const Reply& reply) { return !reply.ok && !heard_of_it(reply); });
  if (found == replies.end()) found = std::find_if(replies.begin(), replies.end(), failed);
  if (found == replies.end()) return;
  const auto& link = ranks_.links()[static_cast<size_t>(found - replies.begin())];
  throw Error(found->kind, heard_of_it(*found)
                               ? found->message
                               : fmt::format("{}: {}", name_of(link), found->message));
}

StepsRun ProcessGroup::timed(const WorkerRequest& what, int steps) {
  std::vector<Reply> replies = request(what, steps, true);
  const auto numeric = std::find_if(replies.begin(), replies.end(), [](const Reply& reply) {
    return !reply.ok && reply.kind == ErrorKind::numeric;
  });
  if (numeric != replies.end()) throw_non_finite(*numeric);
  throw_unless_ok(replies);
  StepsRun run;
  run.fills = replies.front().fills;
  std::map<std::string, HostLoad> hosts;
  for (size_t rank = 0; rank < replies.size(); ++rank) {
    Reply& reply = replies[rank];
    run.step_time_seconds.push_back(std::move(reply.step_time_seconds.at(0)));
    HostLoad& host = hosts[ranks_.links()[rank].hello.machine];
    host.cpu_seconds += reply.cpu_seconds;
    if (reply.machine.size() == 2) {
      host.before = reply.machine.front();
      host.after = reply.machine.back();
    }
  }
  for (const auto& [machine, load] : hosts) run.hosts.push_back(load);
  return run;
}

void ProcessGroup::take_traces(const std::filesystem::path& folder) {
  std::vector<std::string> traces;
  for (Reply& reply : checked(request::TakeTraces{}, kPrepareAllowance))
    traces.push_back(std::move(reply.traces.at(0)));
  write_traces(traces, folder);
}

void ProcessGroup::write_ledger(uint64_t seed, int steps, const std::filesystem::path& path,
                                uint64_t stress, LedgerDepth depth) {
  write_ledger_with({seed, steps, path.string(), stress, depth});
}

// Each process sends its ranks' part.
CheckpointsUsed ProcessGroup::write_ledger_with(const request::WriteLedger& run) {
  request::WriteLedger part = run;
  part.path.clear();
  std::vector<Reply> replies = checked(part, kLedgerStepAllowance * (run.steps + 2));
  const Ledger whole = merged_ledger(replies);
  write_file_atomically(run.path, [&](std::ostream& out) { dettax::write_ledger(out, whole); });
  Reply& of_first = replies.front();
  return {std::move(of_first.fresh_states), std::move(of_first.restored_states),
          std::move(of_first.not_saved)};
}

void ProcessGroup::throw_non_finite(const Reply& failed) {
  const std::vector<Reply> found =
      checked(request::FindNonFinite{failed.step},
              kLedgerStepAllowance * static_cast<double>(failed.step + 2));
  throw Error(ErrorKind::numeric, fmt::format("{}; {}", failed.message, earliest_finding(found)));
}

std::vector<RankPlace> ProcessGroup::places() const {
  std::vector<RankPlace> places;
  for (size_t rank = 0; rank < ranks_.links().size(); ++rank) {
    const Hello& hello = ranks_.links()[rank].hello;
    const std::vector<int>& bound = ranks_.welcomes()[rank].cores;
    places.push_back({static_cast<int>(rank), hello.host,
                      core_list(bound.empty() ? hello.cores : bound), !bound.empty()});
  }
  return places;
}

std::string ProcessGroup::seats() const {
  std::string seats;
  for (size_t rank = 0; rank < ranks_.links().size(); ++rank) {
    const Hello& hello = ranks_.links()[rank].hello;
    seats += fmt::format("{}: {}; ", hello.host,
                         seat_words(ranks_.welcomes()[rank].cores, hello.cores,
                                    spec_.planned.topology.threads_per_rank));
  }
  return seats;
}

// Namespaces and loopback nodes have names of their own and are one machine.
std::string ProcessGroup::nodes_words() const {
  std::set<std::string> hosts, machines;
  for (const RankLink& link : ranks_.links()) {
    hosts.insert(link.hello.host);
    machines.insert(link.hello.machine);
  }
  return hosts.size() > machines.size()
             ? fmt::format("{} (emulated on {})", hosts.size(),
                           machines.size() == 1 ? "one machine"
                                                : fmt::format("{} machines", machines.size()))
             : fmt::format("{}", hosts.size());
}

class ProcessLauncher : public Launcher {
 public:
  ProcessLauncher(LaunchSettings settings, ProcessSettings process_settings)
      : settings_(std::move(settings)), process_settings_(std::move(process_settings)) {}
  std::unique_ptr<ArmGroup> start(const ArmSpec& spec, const std::string& name) override {
    return std::make_unique<ProcessGroup>(spec, settings_, process_settings_,
                                          spec.planned.id() + "." + name);
  }

 private:
  LaunchSettings settings_;
  ProcessSettings process_settings_;
};

}  // namespace

std::unique_ptr<Launcher> make_process_launcher(LaunchSettings settings,
                                                ProcessSettings process_settings) {
  return std::make_unique<ProcessLauncher>(std::move(settings), std::move(process_settings));
}

}  // namespace dettax
