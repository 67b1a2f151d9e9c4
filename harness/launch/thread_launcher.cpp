#include <utility>

#include <fmt/format.h>

#include "harness/launch/fill_mean.h"
#include "harness/launch/launcher.h"
#include "harness/launch/machine.h"
#include "harness/launch/trace_files.h"
#include "harness/launch/worker_process.h"

namespace dettax {

CheckpointsUsed ArmGroup::write_ledger_with(const request::WriteLedger&) {
  throw Error(ErrorKind::unsupported, "these processes neither save nor load checkpoints");
}

namespace {

// Where the ranks of a worker will sit: it may use what this process may.
struct Seating {
  std::vector<RankPlace> places;
  std::string words;
};

// Error{config} where the cores are too few to bind to.
Seating seating_of(const ArmSpec& spec, Binding binding) {
  const Machine machine = find_machine();
  const int ranks = spec.planned.layout.ranks(), threads = spec.planned.topology.threads_per_rank;
  Seating seating;
  for (const int node : emulated_nodes(spec.planned.topology, spec.placement))
    seating.words += fmt::format("node {}; ", node);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<int> bound =
        placed_cores(spec.placement, binding, machine.cores, rank, ranks, threads);
    seating.places.push_back(
        {rank, node_name(), core_list(bound.empty() ? machine.cores : bound), !bound.empty()});
    seating.words += seat_words(bound, machine.cores, threads) + "; ";
  }
  return seating;
}

HostLoad host_load(const Reply& reply) {
  return {reply.machine.at(0), reply.machine.at(1), reply.cpu_seconds};
}

class ThreadGroup : public ArmGroup {
 public:
  ThreadGroup(const ArmSpec& spec, const LaunchSettings& settings, const std::string& name)
      : spec_(spec),
        step_limit_seconds_(settings.step_timeout_seconds),
        seating_(seating_of(spec, settings.binding)),
        worker_(spec, settings, name) {
    engaged_ = checked(request::Prepare{spec}, kPrepareAllowance, false).engaged;
    engaged_["launcher"] = "threads";
    engaged_["binding"] = binding_word(settings.binding);
    const Topology& topology = spec.planned.topology;
    engaged_["nodes"] =
        topology.nodes == 1 ? "1" : fmt::format("{} (emulated in one process)", topology.nodes);
    if (topology.emulates_links()) engaged_["links"] = link_words(topology) + " (emulated)";
  }

  const ArmSpec& spec() const override { return spec_; }
  const std::map<std::string, std::string>& engaged() const override { return engaged_; }
  int64_t memory_peak_bytes() const override { return memory_peak_bytes_; }
  int64_t process_id() const override { return worker_.pid(); }
  std::vector<RankPlace> places() const override { return seating_.places; }
  std::string seats() const override { return seating_.words; }
  Fills fills_per_step() const override { return fills_.per_step(); }

  StepsRun run_steps(int steps) override {
    StepsRun run = timed(request::Steps{steps}, steps);
    fills_.add(run.fills, steps);
    return run;
  }
  StepsRun profile_steps(int steps) override { return timed(request::Profile{steps}, steps + 1); }
  void take_traces(const std::filesystem::path& folder) override {
    write_traces(checked(request::TakeTraces{}, kPrepareAllowance, false).traces, folder);
  }

  void write_ledger(uint64_t seed, int steps, const std::filesystem::path& path, uint64_t stress,
                    LedgerDepth depth) override {
    checked(request::WriteLedger{seed, steps, path.string(), stress, depth},
            kLedgerStepAllowance * (steps + 1), false);
  }

  CheckpointsUsed write_ledger_with(const request::WriteLedger& run) override {
    Reply reply = checked(run, kLedgerStepAllowance * (run.steps + 2), false);
    return {std::move(reply.fresh_states), std::move(reply.restored_states),
            std::move(reply.not_saved)};
  }

  void weaken(Knob knob) override {
    checked(request::Weaken{std::string(knob_name(knob))}, kPrepareAllowance, false);
  }

 private:
  StepsRun timed(const WorkerRequest& what, int steps) {
    Reply reply = request(what, steps, true);
    if (!reply.ok && reply.kind == ErrorKind::numeric) throw_non_finite(reply);
    throw_unless_ok(reply);
    return {std::move(reply.step_time_seconds), reply.fills, {host_load(reply)}};
  }
  Reply request(const WorkerRequest& what, double step_count, bool watch_steps) {
    Reply reply = worker_.request(what, step_limit_seconds_ * step_count, watch_steps);
    memory_peak_bytes_ = reply.memory_peak_bytes;
    return reply;
  }

  Reply checked(const WorkerRequest& what, double step_count, bool watch_steps) {
    Reply reply = request(what, step_count, watch_steps);
    throw_unless_ok(reply);
    return reply;
  }

  void throw_unless_ok(const Reply& reply) const {
    if (!reply.ok) throw Error(reply.kind, reply.message);
  }

  [[noreturn]] void throw_non_finite(const Reply& failed) {
    const Reply found = checked(request::FindNonFinite{failed.step},
                                kLedgerStepAllowance * static_cast<double>(failed.step + 2), false);
    throw Error(ErrorKind::numeric, fmt::format("{}; {}", failed.message, found.message));
  }

  ArmSpec spec_;
  double step_limit_seconds_;
  Seating seating_;
  WorkerProcess worker_;
  std::map<std::string, std::string> engaged_;
  int64_t memory_peak_bytes_ = 0;
  FillMean fills_;
};

class ThreadLauncher : public Launcher {
 public:
  explicit ThreadLauncher(LaunchSettings settings) : settings_(std::move(settings)) {}
  std::unique_ptr<ArmGroup> start(const ArmSpec& spec, const std::string& name) override {
    return std::make_unique<ThreadGroup>(spec, settings_, spec.planned.id() + "." + name);
  }

 private:
  LaunchSettings settings_;
};

}  // namespace

std::unique_ptr<Launcher> make_thread_launcher(LaunchSettings settings) {
  return std::make_unique<ThreadLauncher>(std::move(settings));
}

}  // namespace dettax
