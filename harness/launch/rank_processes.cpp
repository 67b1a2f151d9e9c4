#include "harness/launch/rank_processes.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "harness/base/text.h"
#include "harness/launch/rank_faults.h"

namespace dettax {
namespace {

using Clock = std::chrono::steady_clock;

// What mpirun or srun may take, over and above a start that the watchdog allows, before every rank
// has said hello.
constexpr double kStarterSeconds = 20;
// How long it is waited for what others have to say once one rank has gone or failed.
constexpr double kDeathGraceSeconds = 0.3;
constexpr double kFailureGraceSeconds = 1;
// For mpirun or srun to end once its ranks are gone, and once it was asked to.
constexpr double kEndSeconds = 3;
constexpr double kExitSeconds = 5;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double heartbeat_seconds(double step_timeout_seconds) {
  return std::clamp(step_timeout_seconds / 10, 0.05, 5.0);
}

ProcessSpec starter_command(const ArmSpec& spec, const LaunchSettings& settings,
                            const ProcessSettings& process_settings, const ControlServer& server) {
  GroupPlan plan;
  plan.topology = spec.planned.topology;
  plan.hosts = hosts_for(spec.planned, process_settings.job);
  if (spec.placement == RankPlacement::swapped) {
    std::reverse(plan.hosts.begin(), plan.hosts.end());
    plan.dealt = true;
  }
  plan.cores_per_host = process_settings.job.cores_per_host;
  plan.program = settings.program == LaunchSettings{}.program ? own_program() : settings.program;
  plan.worker_arguments = {"worker", "--control", server.addresses(), "--rank-variable",
                           rank_variable_of(process_settings.starter)};
  plan.environment = spec.mode.environment;
  plan.environment[kTokenVariable] = server.token();
  plan.extra_arguments = process_settings.arguments;
  return rank_command(process_settings.starter, plan, process_variables());
}

Process start_process(const ArmSpec& spec, const LaunchSettings& settings,
                      const ProcessSettings& process_settings, const ControlServer& server,
                      const std::filesystem::path& log) {
  if (const auto fault = job_fault(spec.planned, process_settings.job)) {
    throw Error(ErrorKind::infrastructure, *fault);
  }
  ProcessSpec command = starter_command(spec, settings, process_settings, server);
  command.output = log;
  return Process::start(command);
}

std::vector<Hello> hellos_of(const std::vector<RankLink>& links) {
  std::vector<Hello> hellos;
  hellos.reserve(links.size());
  for (const RankLink& link : links) hellos.push_back(link.hello);
  return hellos;
}

// Hosts numbered in the order of their first ranks.
std::vector<int> nodes_of(const std::vector<Hello>& hellos) {
  std::map<std::string, int> numbers;
  std::vector<int> nodes;
  for (const Hello& hello : hellos) {
    nodes.push_back(numbers.emplace(hello.host, static_cast<int>(numbers.size())).first->second);
  }
  return nodes;
}

int64_t progress_of(const std::vector<RankLink>& links) {
  int64_t sum = 0;
  for (const RankLink& link : links) sum += link.at.step + link.at.ops;
  return sum;
}

}  // namespace

std::vector<Welcome> plan_welcomes(const std::vector<Hello>& hellos, RankPlacement placement,
                                   Binding binding, int threads, double step_timeout_seconds) {
  // Ranks that share cores: of one machine, unless their starter has set them apart.
  using Place = std::pair<std::string, std::vector<int>>;
  std::map<Place, std::vector<size_t>> sharing;
  for (size_t rank = 0; rank < hellos.size(); ++rank) {
    sharing[{hellos[rank].machine, hellos[rank].cores}].push_back(rank);
  }
  std::vector<Welcome> welcomes(hellos.size());
  const std::vector<int> nodes = nodes_of(hellos);
  for (const auto& [place, ranks] : sharing) {
    const auto& cores = place.second;
    const int size = static_cast<int>(ranks.size());
    for (int i = 0; i < size; ++i) {
      Welcome& welcome = welcomes[ranks[static_cast<size_t>(i)]];
      welcome.heartbeat_seconds = heartbeat_seconds(step_timeout_seconds);
      welcome.node_of_rank = nodes;
      welcome.spin = static_cast<size_t>(size) * static_cast<size_t>(threads) <= cores.size();
      welcome.cores = placed_cores(placement, binding, cores, i, size, threads);
    }
  }
  return welcomes;
}

RankProcesses::RankProcesses(const ArmSpec& spec, const LaunchSettings& settings,
                             const ProcessSettings& process_settings, const std::string& name)
    : settings_(settings),
      log_(settings.log_folder / (name + ".log")),
      server_(process_settings.control_address),
      process_(start_process(spec, settings, process_settings, server_, log_)) {
  try {
    links_ = gather_ranks(server_, spec.planned.layout.ranks(), process_,
                          settings.step_timeout_seconds + kStarterSeconds, settings.interrupt);
    watch_links();
    welcome_all(spec);
  } catch (const Error& error) {
    end();
    throw Error(error.kind(), error.what() + output_tail(log_));
  }
}

RankProcesses::~RankProcesses() {
  if (!links_.empty()) {
    try {
      request(request::Exit{}, kExitSeconds, false);
      process_.wait(kEndSeconds);
    } catch (const std::exception&) {  // it is ended the hard way
    }
  }
  end();
}

void RankProcesses::watch_links() {
  std::vector<int> descriptors;
  for (const RankLink& link : links_) descriptors.push_back(link.channel.descriptor());
  watch_ = std::make_unique<LinkWatch>(descriptors);
}

void RankProcesses::welcome_all(const ArmSpec& spec) {
  const std::vector<Hello> hellos = hellos_of(links_);
  if (const auto fault = placement_fault(spec.planned, hellos)) {
    throw Error(ErrorKind::infrastructure, *fault);
  }
  if (const auto fault = fleet_fault(hellos)) throw Error(ErrorKind::infrastructure, *fault);
  welcomes_ = plan_welcomes(hellos, spec.placement, settings_.binding,
                            spec.planned.topology.threads_per_rank, settings_.step_timeout_seconds);
  for (size_t rank = 0; rank < links_.size(); ++rank) {
    if (!links_[rank].channel.send(encode(welcomes_[rank]))) links_[rank].closed = Clock::now();
  }
}

void RankProcesses::send_all(const std::string& line) {
  const Clock::time_point now = Clock::now();
  for (RankLink& link : links_) {
    link.reply.reset();
    link.heard = now;
    if (link.closed) continue;
    try {
      if (!link.channel.send(line)) link.closed = now;
    } catch (const Error&) {  // of a host that cannot be reached any more
      link.closed = now;
    }
  }
}

bool RankProcesses::all_replied() const {
  return std::all_of(links_.begin(), links_.end(),
                     [](const RankLink& link) { return link.reply.has_value(); });
}

std::vector<Reply> RankProcesses::request(const WorkerRequest& what, double limit_seconds,
                                          bool watch_steps) {
  if (links_.empty()) throw Error(ErrorKind::internal, "a request to a group that has ended");
  send_all(encode(what));
  const Clock::time_point start = Clock::now();
  const double timeout = settings_.step_timeout_seconds;
  double last_progress = 0;
  int64_t progress = progress_of(links_);
  for (;;) {
    if (std::any_of(links_.begin(), links_.end(),
                    [](const RankLink& link) { return link.closed.has_value(); })) {
      throw_died();
    }
    throw_if_one_failed();  // waits a little for the others
    if (all_replied()) break;
    const double elapsed = seconds_since(start);
    if (const int64_t now = progress_of(links_); now != progress) {
      progress = now;
      last_progress = elapsed;
    }
    double left = limit_seconds - elapsed;
    if (watch_steps) left = std::min(left, last_progress + timeout - elapsed);
    for (const RankLink& link : links_) {
      if (!link.reply) left = std::min(left, timeout - seconds_since(link.heard));
    }
    if (left <= 0) throw_delayed(elapsed - last_progress);
    if (!hear(links_, left, settings_.interrupt)) {
      end();
      throw Error(ErrorKind::infrastructure, "interrupted");
    }
  }
  std::vector<Reply> replies;
  for (RankLink& link : links_) replies.push_back(std::move(*link.reply));
  return replies;
}

// One rank's failure leaves the others waiting for it in a collective.
void RankProcesses::throw_if_one_failed() {
  const auto failed = [](const RankLink& link) { return link.reply && !link.reply->ok; };
  if (std::none_of(links_.begin(), links_.end(), failed)) return;
  const Clock::time_point start = Clock::now();
  while (!all_replied() && seconds_since(start) < kFailureGraceSeconds) {
    if (!hear(links_, kFailureGraceSeconds - seconds_since(start), settings_.interrupt)) break;
  }
  if (all_replied()) return;
  const auto link = std::find_if(links_.begin(), links_.end(), failed);
  const Error error(link->reply->kind, fmt::format("{}: {}", name_of(*link), link->reply->message));
  end();
  throw error;
}

void RankProcesses::throw_died() {
  const Clock::time_point start = Clock::now();
  while (seconds_since(start) < kDeathGraceSeconds &&
         hear(links_, kDeathGraceSeconds - seconds_since(start), settings_.interrupt)) {
  }
  for (size_t rank = 0; rank < links_.size(); ++rank) {
    if (const auto at = watch_->closed(rank)) links_[rank].closed = *at;
  }
  const std::string words = death_words(links_);
  end();  // then mpirun or srun has had its say as well
  throw Error(ErrorKind::infrastructure, words + output_tail(log_));
}

void RankProcesses::throw_delayed(double no_progress_seconds) {
  const double silent = 2.5 * heartbeat_seconds(settings_.step_timeout_seconds);
  const std::string words =
      delay_words(links_, Clock::now(), silent, no_progress_seconds) + output_tail(log_);
  end();
  throw Error(ErrorKind::timeout, words);
}

// Ranks end by themselves when their connection does; mpirun and srun end when their ranks have.
void RankProcesses::end() {
  watch_.reset();
  links_.clear();
  if (process_.pid() < 0) return;
  if (!process_.wait(kEndSeconds)) {
    ::kill(process_.pid(), SIGTERM);
    process_.wait(kEndSeconds);
  }
  process_.kill();
}

}  // namespace dettax
