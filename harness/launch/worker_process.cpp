#include "harness/launch/worker_process.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

using Clock = std::chrono::steady_clock;

// How long a worker that closed its socket may take to end, and one that was asked to go.
constexpr double kEndSeconds = 5;

std::string position(const RankStatus& rank) {
  const int64_t step = rank.step.load();
  if (step < 0) return "before its first step";
  const std::string op = rank.op_text();
  return op.empty() || op == "idle" ? fmt::format("in step {}", step)
                                    : fmt::format("in step {}, op {}", step, op);
}

std::pair<int64_t, int64_t> progress(const RankStatus& rank) {
  return {rank.step.load(), rank.ops.load()};
}

// The rank that got least far: the others wait for it.
int laggard(const StatusPage& page, int ranks) {
  const auto& all = page.layout().ranks;
  const auto* const first = all.begin();
  const auto* const least = std::min_element(
      first, first + ranks,
      [](const RankStatus& a, const RankStatus& b) { return progress(a) < progress(b); });
  return static_cast<int>(least - first);
}

Process start_process(const ArmSpec& spec, const LaunchSettings& settings, const std::string& name,
                      int socket, int page) {
  ProcessSpec process;
  process.program = settings.program;
  process.arguments = {"worker", "--binding", binding_word(settings.binding)};
  process.environment = spec.mode.environment;
  process.descriptors = {socket, page};
  process.output = settings.log_folder / (name + ".log");
  return Process::start(process);
}

}  // namespace

WorkerProcess::WorkerProcess(const ArmSpec& spec, const LaunchSettings& settings,
                             const std::string& name)
    : settings_(settings),
      log_(settings.log_folder / (name + ".log")),
      ranks_(spec.planned.layout.ranks()),
      page_(StatusPage::create()),
      channel_(Descriptor()),
      process_([&] {
        auto [ours, theirs] = Channel::pair();
        channel_ = std::move(ours);
        return start_process(spec, settings, name, theirs.descriptor(), page_.descriptor());
      }()) {}

WorkerProcess::~WorkerProcess() {
  // Asked to go, it ends in order; killed it is in any case.
  channel_.close();
  process_.wait(kEndSeconds);
}

int64_t WorkerProcess::steps_begun() const {
  int64_t sum = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    sum += page_.layout().ranks[static_cast<size_t>(rank)].step.load();
  }
  return sum;
}

Reply WorkerProcess::request(const WorkerRequest& what, double limit_seconds, bool watch_steps) {
  if (!channel_.send(encode(what))) throw_died();
  const Clock::time_point start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  double last_progress = 0;
  int64_t steps = steps_begun();
  for (;;) {
    double wait = limit_seconds - elapsed();
    if (watch_steps)
      wait = std::min(wait, last_progress + settings_.step_timeout_seconds - elapsed());
    const Channel::Received received = channel_.receive(wait, settings_.interrupt);
    switch (received.event) {
      case Channel::Event::line:
        return decode_reply(received.line);
      case Channel::Event::closed:
        throw_died();
      case Channel::Event::interrupt:
        process_.kill();
        throw Error(ErrorKind::infrastructure, "interrupted");
      case Channel::Event::timeout:
        break;
    }
    const int64_t now = steps_begun();
    if (elapsed() >= limit_seconds) throw_hung(elapsed());
    if (now == steps) throw_hung(elapsed() - last_progress);
    // Seen late, at the end of a wait: a hang is found within twice the time allowed, and nobody
    // polls.
    steps = now;
    last_progress = elapsed();
  }
}

void WorkerProcess::throw_died() {
  const std::optional<int> status = process_.wait(kEndSeconds);
  const std::string how = status ? describe_exit(*status) : "closed its connection";
  process_.kill();
  std::string who = "worker";
  std::string where;
  const int crashed = page_.layout().crashed_rank.load();
  if (crashed >= 0 && crashed < ranks_) {
    who = fmt::format("rank {}", crashed);
    where = position(page_.layout().ranks[static_cast<size_t>(crashed)]);
  } else if (ranks_ == 1) {
    who = "rank 0";
    where = position(page_.layout().ranks[0]);
  } else {
    std::vector<std::string> each;
    each.reserve(static_cast<size_t>(ranks_));
    for (int rank = 0; rank < ranks_; ++rank) {
      each.push_back(fmt::format("rank {} {}", rank,
                                 position(page_.layout().ranks[static_cast<size_t>(rank)])));
    }
    where = fmt::format("with {}", join(each, "; "));
  }
  throw Error(ErrorKind::infrastructure,
              fmt::format("{} {} {}{}", who, how, where, output_tail(log_)));
}

void WorkerProcess::throw_hung(double seconds) {
  const int rank = laggard(page_, ranks_);
  const std::string where = position(page_.layout().ranks[static_cast<size_t>(rank)]);
  process_.kill();
  throw Error(ErrorKind::timeout, fmt::format("rank {} hung {} (no progress for {}){}", rank, where,
                                              format_seconds(seconds), output_tail(log_)));
}

}  // namespace dettax
