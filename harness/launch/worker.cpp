#include "harness/launch/worker.h"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>

#include "harness/device/cpu/gemm.h"
#include "harness/evidence/controls.h"
#include "harness/evidence/ledger_file.h"
#include "harness/launch/crash_handler.h"
#include "harness/launch/environment_audit.h"
#include "harness/launch/non_finite.h"
#include "harness/launch/protocol.h"
#include "harness/launch/rank_pool.h"
#include "harness/train/checkpoint.h"
#include "harness/train/rank_states.h"
#include "profiles/export/chrome_export.h"
#include "results/environment.h"

namespace dettax {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double cpu_seconds_used() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A NaN's sign says nothing.
std::string in_words(float value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

// One step of one rank. An op without a deterministic version is named with its place: it knows of none.
StepResult step_with_place(RankContext& context) {
  try {
    return context.train->step();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::nondeterministic) throw;
    throw Error(error.kind(), fmt::format("{}; it ended step {}, rank {}, op {}", error.what(),
                                          context.train->steps_done(), context.rank,
                                          context.train->current_op()));
  }
}

// One step of one rank with the faults that are due.
StepResult step_with_faults(RankContext& context,
                            FaultInjector::Steps steps = FaultInjector::Steps::measured) {
  const int64_t number = context.train->steps_done();
  context.status.step.store(number, std::memory_order_relaxed);
  if (!context.faults->begin_step(number, steps)) return step_with_place(context);
  context.train->inject(context.faults.get());
  const StepResult result = step_with_place(context);
  context.train->inject(nullptr);
  context.faults->end_step();
  return result;
}

void wait_until(Clock::time_point end) {
  while (Clock::now() < end) {
  }
}

double timed_step(RankContext& context, StepResult& result) {
  const double slow_ratio = context.faults->slow_ratio(context.train->steps_done());
  const Clock::time_point start = Clock::now();
  result = step_with_faults(context);
  if (slow_ratio > 0) {
    const auto longer = std::chrono::duration<double>(seconds_since(start) * (1 + slow_ratio));
    wait_until(start + std::chrono::duration_cast<Clock::duration>(longer));
  }
  return seconds_since(start);
}

FillTotals difference(const FillTotals& after, const FillTotals& before) {
  return {after.count - before.count, after.bytes - before.bytes, after.time_ns - before.time_ns};
}

// Delays of each rank's own, for as long as this lives: whatever is thrown, timed steps have none.
class Stress {
 public:
  Stress(Device& device, uint64_t seed, int rank) : device_(device) {
    constexpr uint64_t kRanks = StatusPage::kMaxRanks;
    if (seed != 0) device_.set_jitter(seed * kRanks + static_cast<uint64_t>(rank));
  }
  ~Stress() { device_.set_jitter(0); }
  Stress(const Stress&) = delete;
  Stress& operator=(const Stress&) = delete;

 private:
  Device& device_;
};

}  // namespace

class RequestHandler::Worker {
 public:
  Worker(StatusPage& page, PoolSettings settings) : page_(page), settings_(std::move(settings)) {}
  Worker(const Worker&) = delete;
  ~Worker() { note_crash_positions(nullptr); }

  Reply handle(const request::Prepare& prepare);
  Reply handle(const request::Steps& steps) { return timed_steps(steps.count, false); }
  Reply handle(const request::Profile& profile);
  Reply handle(const request::TakeTraces&);
  Reply handle(const request::WriteLedger& ledger);
  Reply handle(const request::Weaken& weaken);
  Reply handle(const request::FindNonFinite& find);
  Reply handle(const request::Exit&) { return {}; }

 private:
  RankPool& pool();
  Reply timed_steps(int count, bool recorded);
  void write_ledger(const request::WriteLedger& ledger, std::ostream& out, Reply& reply);
  std::map<std::string, std::string> engaged() const;

  StatusPage& page_;
  const PoolSettings settings_;
  ArmSpec spec_;
  Mode mode_;  // that runs: the spec's, or that with one knob weakened
  std::unique_ptr<RankPool> pool_;
};

RankPool& RequestHandler::Worker::pool() {
  if (!pool_) throw Error(ErrorKind::internal, "worker protocol: a request before prepare");
  return *pool_;
}

// What runs, as found here and not as asked: a variable that did not arrive shows as absent.
std::map<std::string, std::string> RequestHandler::Worker::engaged() const {
  std::map<std::string, std::string> out;
  for (const KnobInfo& info : knob_table()) {
    out[std::string(info.name)] =
        knob_acts(info.knob, spec_.planned) ? knob_value(spec_.mode.knobs, info.knob) : "";
  }
  const Variables at_start = start_environment();
  for (const auto& [name, value] : spec_.mode.environment) {
    out[name] = found_setting(name, at_start);
  }
  out["ranks"] = std::to_string(pool_->size());
  out["threads_per_rank"] = std::to_string(spec_.planned.topology.threads_per_rank);
  out["simd_target"] = gemm_target_name();
  out["idle_threads"] = pool_->spins() ? "poll, then sleep" : "sleep";
  return out;
}

Reply RequestHandler::Worker::handle(const request::Prepare& prepare) {
  spec_ = prepare.spec;
  mode_ = spec_.mode;
  pool_ = std::make_unique<RankPool>(spec_, page_, settings_);
  note_crash_positions(pool_.get());
  Reply reply;
  reply.engaged = engaged();
  pool_->run([&](RankContext& context) {
    context.train->reset(spec_.planned.seed);
    if (context.index == 0) reply.engaged["device"] = context.device->description();
  });
  return reply;
}

Reply RequestHandler::Worker::timed_steps(int count, bool recorded) {
  Reply reply;
  reply.step_time_seconds.resize(static_cast<size_t>(pool().size()));
  reply.machine.push_back(sample_machine());
  const double cpu_before = cpu_seconds_used();
  pool().run([&](RankContext& context) {
    const FillTotals fills_before = context.train->fills();
    auto& times = reply.step_time_seconds[context.index];
    times.reserve(static_cast<size_t>(count));
    context.communicator->barrier();  // all are awake before the first step is timed
    for (int i = 0; i < count; ++i) {
      StepResult result;
      if (recorded) context.recorder->begin_step();
      times.push_back(timed_step(context, result));
      if (recorded) context.recorder->end_step();
      if (result.finite) continue;
      // Loss and norm are sums over the group: every rank stops here.
      if (context.index == 0) {
        reply.ok = false;
        reply.kind = ErrorKind::numeric;
        reply.step = context.train->steps_done() - 1;
        reply.message =
            fmt::format("loss {} and gradient norm {} in step {}", in_words(result.loss),
                        in_words(result.gradient_norm), reply.step);
      }
      break;
    }
    if (context.index == 0) reply.fills = difference(context.train->fills(), fills_before);
  });
  reply.cpu_seconds = cpu_seconds_used() - cpu_before;
  reply.machine.push_back(sample_machine());
  return reply;
}

namespace {

// Listens for as long as this lives, whatever is thrown.
class Listening {
 public:
  Listening(RankContext& context, OpListener& listener) : context_(context) {
    context_.delays->listen(*context_.train, &listener);
  }
  ~Listening() { context_.delays->listen(*context_.train, nullptr); }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  RankContext& context_;
};

// One step tells its size, so that recording takes all its memory before the first that counts.
void make_recorder(RankContext& context, int world_size) {
  StepSize size;
  {
    const Listening listening(context, size);
    step_with_faults(context);
  }
  context.recorder = std::make_unique<StepRecorder>(context.rank, world_size,
                                                    static_cast<size_t>(kProfiledStepsMost), size);
}

}  // namespace

Reply RequestHandler::Worker::handle(const request::Profile& profile) {
  std::vector<std::unique_ptr<Listening>> listening(static_cast<size_t>(pool().size()));
  pool().run([&](RankContext& context) {
    if (!context.recorder) make_recorder(context, spec_.planned.layout.ranks());
    context.recorder->begin_block();
    listening[context.index] = std::make_unique<Listening>(context, *context.recorder);
  });
  return timed_steps(profile.count, true);
}

Reply RequestHandler::Worker::handle(const request::TakeTraces&) {
  Reply reply;
  reply.traces.resize(static_cast<size_t>(pool().size()));
  pool().run([&](RankContext& context) {
    if (!context.recorder) return;
    std::ostringstream text;
    write_chrome_trace(text, context.recorder->take());
    reply.traces[context.index] = text.str();
  });
  return reply;
}

Reply RequestHandler::Worker::handle(const request::WriteLedger& ledger) {
  Reply reply;
  if (ledger.path.empty()) {  // other ranks' parts are elsewhere
    std::ostringstream bytes;
    write_ledger(ledger, bytes, reply);
    reply.ledger = bytes.str();
    return reply;
  }
  std::ofstream file(ledger.path, std::ios::binary);
  if (!file) throw Error(ErrorKind::infrastructure, ledger.path + ": cannot be written");
  write_ledger(ledger, file, reply);
  return reply;
}

namespace {

// Collective; every rank learns the tables of all.
std::vector<std::string> state_tables(RankContext& context) {
  return gather_texts(*context.communicator, encode_states(describe_state(*context.train)));
}

void begin_run(RankContext& context, const request::WriteLedger& ledger, Reply& reply) {
  const CheckpointUse& use = ledger.checkpoints;
  if (use.load.empty()) {
    context.train->reset(ledger.seed);
    return;
  }
  context.train->reset(kNoSeed);
  std::vector<std::string> fresh = state_tables(context);
  load_checkpoint(use.load, *context.train, {{use.leave_out.begin(), use.leave_out.end()}});
  std::vector<std::string> restored = state_tables(context);
  if (context.index != 0) return;
  reply.fresh_states = std::move(fresh);
  reply.restored_states = std::move(restored);
}

// What one rank's run saves on its way.
class Saving {
 public:
  Saving(RankContext& context, const request::WriteLedger& ledger)
      : context_(context), use_(ledger.checkpoints), end_(ledger.steps) {
    if (use_.save_into.empty()) return;
    attempt([&] {
      saver_ = std::make_unique<CheckpointSaver>(SaveSettings{use_.save_into, 0},
                                                 *context_.communicator);
    });
  }
  void save_if_due() {
    if (saver_ && due(context_.train->steps_done()))
      attempt([&] { saver_->schedule(*context_.train); });
  }
  void finish() {
    if (saver_) attempt([&] { saver_->finish(); });
  }
  const std::string& failure() const { return failure_; }

 private:
  bool due(int64_t done) const {
    if (use_.save_every == 0) return done == use_.save_at;
    return done > use_.from && done < end_ && done % use_.save_every == 0;
  }
  // A saver fails on all ranks or on none, so that all of them go on without one.
  template <class Work>
  void attempt(const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      if (use_.save_every == 0 || error.kind() != ErrorKind::infrastructure) throw;
      failure_ = error.what();
      saver_.reset();
    }
  }

  RankContext& context_;
  const CheckpointUse& use_;
  const int end_;
  std::unique_ptr<CheckpointSaver> saver_;
  std::string failure_;
};

void run_rank(RankContext& context, const request::WriteLedger& ledger,
              const LedgerObserver::Sink& sink, Reply& reply) {
  Saving saving(context, ledger);
  continue_ledger(*context.train, *context.device,
                  {ledger.checkpoints.from, ledger.steps, ledger.depth}, sink, [&] {
                    saving.save_if_due();
                    return step_with_faults(context, FaultInjector::Steps::ledger);
                  });
  saving.save_if_due();
  saving.finish();
  if (context.index == 0) reply.not_saved = saving.failure();
}

}  // namespace

// As the steps go, so that a run that is stopped leaves what it had.
void RequestHandler::Worker::write_ledger(const request::WriteLedger& ledger, std::ostream& out,
                                          Reply& reply) {
  LedgerHead head = make_ledger_head(spec_.planned, mode_, ledger.depth);
  head.seed = static_cast<int64_t>(ledger.seed);
  head.steps = ledger.steps;
  head.environment = ledger_environment(collect_environment(gemm_target_name()));
  LedgerWriter writer(out, head, static_cast<size_t>(pool().size()));
  pool().run([&](RankContext& context) {
    const Stress stress(*context.device, ledger.stress, context.rank);
    const auto append = [&](int64_t step, const LedgerNames& names, const LedgerColumns& columns) {
      writer.append(context.index, step, names, columns);
    };
    begin_run(context, ledger, reply);
    run_rank(context, ledger, append, reply);
  });
  writer.finish();
}

Reply RequestHandler::Worker::handle(const request::Weaken& weaken) {
  mode_ = weakened(spec_.mode, knob_named(weaken.knob));
  pool().rebuild(mode_);
  return {};
}

namespace {

std::string describe(const NonFiniteFinding& finding, int rank) {
  return fmt::format("first in step {}, rank {}, op {}, tensor {} ({} of {} values)", finding.step,
                     rank, finding.path, finding.tensor, finding.bad, finding.total);
}

}  // namespace

Reply RequestHandler::Worker::handle(const request::FindNonFinite& find) {
  std::vector<std::optional<NonFiniteFinding>> found(static_cast<size_t>(pool().size()));
  pool().run([&](RankContext& context) {
    NonFiniteObserver observer(*context.device);
    context.train->observe(nullptr);
    context.train->reset(spec_.planned.seed);
    for (int64_t step = 0; step <= find.step; ++step) {
      observer.begin_step(step);
      // An update that was not finite shows in the loss of the step after it.
      const bool watched = step + 1 >= find.step;
      context.train->observe(watched ? &observer : nullptr);
      step_with_faults(context);
    }
    context.train->observe(nullptr);
    found[context.index] = observer.first();
  });
  // The earliest over all ranks: a collective spreads it to the others.
  Reply reply;
  reply.message =
      "0 of 1 replays reproduced it: intermittent (a race, stale memory or the hardware)";
  std::pair<int64_t, int64_t> earliest{find.step + 1, 0};
  for (size_t rank = 0; rank < found.size(); ++rank) {
    const std::optional<NonFiniteFinding>& finding = found[rank];
    if (!finding) continue;
    const std::pair place{finding->step, finding->op_index};
    if (place >= earliest) continue;
    earliest = place;
    reply.message = describe(*finding, pool_->first_rank() + static_cast<int>(rank));
    reply.found_step = finding->step;
    reply.found_op = finding->op_index;
  }
  return reply;
}

namespace {

int64_t memory_peak_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  return 0;
}

Reply failure(ErrorKind kind, const std::string& message) {
  Reply reply;
  reply.ok = false;
  reply.kind = kind;
  reply.message = message;
  return reply;
}

}  // namespace

RequestHandler::RequestHandler(StatusPage& page, PoolSettings settings)
    : worker_(std::make_unique<Worker>(page, std::move(settings))) {}
RequestHandler::~RequestHandler() = default;

Reply RequestHandler::answer(const WorkerRequest& request) {
  Reply reply;
  try {
    reply = std::visit([&](const auto& what) { return worker_->handle(what); }, request);
  } catch (const Error& error) {
    reply = failure(error.kind(), error.what());
  } catch (const std::bad_alloc&) {
    reply = failure(ErrorKind::infrastructure, "out of memory");
  } catch (const std::exception& error) {
    reply = failure(ErrorKind::internal, error.what());
  }
  reply.memory_peak_bytes = memory_peak_bytes();
  return reply;
}

void run_worker(Channel channel, StatusPage page, const PoolSettings& settings) {
  note_crashes_in(page);
  RequestHandler handler(page, settings);
  for (;;) {
    const Channel::Received received = channel.receive();
    if (received.event != Channel::Event::line) return;  // the launcher is gone
    const WorkerRequest request = decode_request(received.line);
    const bool last = std::holds_alternative<request::Exit>(request);
    if (!channel.send(encode(handler.answer(request))) || last) return;
  }
}

}  // namespace dettax
