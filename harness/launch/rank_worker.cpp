#include "harness/launch/rank_worker.h"

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/comm/mpi_session.h"
#include "harness/launch/control_messages.h"
#include "harness/launch/control_server.h"
#include "harness/launch/crash_handler.h"
#include "harness/launch/machine.h"
#include "harness/launch/rank_variables.h"
#include "harness/launch/worker.h"
#include "results/environment.h"

namespace dettax {
namespace {

constexpr double kConnectSeconds = 30;
// The launcher welcomes when the last rank is there.
constexpr double kWelcomeSeconds = 600;

Hello make_hello(const RankVariables& variables, const Machine& machine) {
  Hello hello;
  const auto token = process_variables()(kTokenVariable);
  if (!token) throw Error(ErrorKind::usage, std::string(kTokenVariable) + " is not set");
  hello.token = *token;
  hello.rank = variables.rank;
  hello.size = variables.size;
  hello.local_rank = variables.local_rank;
  hello.host = node_name();
  hello.machine = machine_identity();
  hello.process_id = ::getpid();
  hello.cores = machine.cores;
  hello.numa_nodes = machine.numa_nodes;
  hello.devices = visible_devices();
  for (const std::string& name : recorded_variables()) {
    if (const auto value = process_variables()(name)) hello.variables[name] = *value;
  }
  return hello;
}

// The rank's end of the connection. A thread reads it, also while a request is worked on: that is
// when it gives signs of life, and sees at once when the launcher has gone.
class LauncherLine {
 public:
  LauncherLine(Channel channel, const StatusPage& page, double heartbeat_seconds)
      : channel_(std::move(channel)),
        page_(page),
        heartbeat_seconds_(heartbeat_seconds),
        stirred_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        reader_([this] { read(); }) {}
  LauncherLine(const LauncherLine&) = delete;
  ~LauncherLine() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    stir();
    reader_.join();
  }

  // The next request.
  std::string next();
  // False when the launcher is gone.
  bool answer(const std::string& line);

 private:
  void read();
  Heartbeat position() const;
  void send_heartbeat();
  void stir() { ::eventfd_write(stirred_.get(), 1); }
  [[noreturn]] static void end_orphan() { ::_exit(EXIT_FAILURE); }

  Channel channel_;
  const StatusPage& page_;
  const double heartbeat_seconds_;
  const Descriptor stirred_;  // wakes the reader when the rank begins or ends to work
  std::mutex mutex_;          // also of sending
  std::condition_variable arrived_;
  std::deque<std::string> requests_;
  bool busy_ = false;
  bool stop_ = false;
  std::thread reader_;
};

std::string LauncherLine::next() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return !requests_.empty(); });
  std::string request = std::move(requests_.front());
  requests_.pop_front();
  busy_ = true;
  stir();
  return request;
}

bool LauncherLine::answer(const std::string& line) {
  const std::lock_guard lock(mutex_);
  busy_ = false;
  // Where it stands while it waits for the next request.
  return channel_.send(encode(position())) && channel_.send(line);
}

Heartbeat LauncherLine::position() const {
  const RankStatus& status = page_.layout().ranks.front();
  return {status.step.load(), status.ops.load(), status.op_text()};
}

void LauncherLine::send_heartbeat() {
  const std::lock_guard lock(mutex_);
  if (busy_ && !channel_.send(encode(position()))) end_orphan();
}

void LauncherLine::read() {
  bool busy = false;
  for (;;) {
    const std::optional<double> wait =
        busy ? std::optional<double>(heartbeat_seconds_) : std::nullopt;
    Channel::Received received = channel_.receive(wait, stirred_.get());
    if (received.event == Channel::Event::closed) end_orphan();
    if (received.event == Channel::Event::timeout) send_heartbeat();
    if (received.event == Channel::Event::interrupt) {
      eventfd_t ignored = 0;
      ::eventfd_read(stirred_.get(), &ignored);
    }
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    if (received.event == Channel::Event::line) {
      requests_.push_back(std::move(received.line));
      arrived_.notify_one();
    }
    busy = busy_;
  }
}

// MPI is initialised when training is prepared, not before: hosts that cannot reach each other are
// then told by a launcher that hears of all of them.
std::unique_ptr<Communicator> connect(std::unique_ptr<MpiSession>& session,
                                      const RankVariables& variables, const Welcome& welcome,
                                      const Topology& topology) {
  session = std::make_unique<MpiSession>();
  if (session->rank() != variables.rank || session->size() != variables.size) {
    throw Error(ErrorKind::infrastructure,
                fmt::format("{} says rank {} of {}, MPI says rank {} of {}", variables.source,
                            variables.rank, variables.size, session->rank(), session->size()));
  }
  CollectiveSettings settings;
  settings.node_of_rank = welcome.node_of_rank;
  settings.intra_node = topology.intra_node;
  settings.inter_node = topology.inter_node;
  return session->communicator(welcome.spin, settings);
}

Welcome receive_welcome(Channel& channel) {
  const Channel::Received received = channel.receive(kWelcomeSeconds);
  if (received.event == Channel::Event::line) return decode_welcome(received.line);
  throw Error(ErrorKind::infrastructure, "the launcher did not welcome this rank");
}

}  // namespace

void run_rank_worker(const std::string& addresses, const std::string& rank_variable) {
  const RankVariables variables = read_rank_variables(process_variables(), rank_variable);
  const Machine machine = find_machine();  // before anything is bound
  Channel channel = connect_to_launcher(addresses, kConnectSeconds);
  if (!channel.send(encode(make_hello(variables, machine)))) return;
  const Welcome welcome = receive_welcome(channel);

  StatusPage page = StatusPage::create();
  note_crashes_in(page);
  tell_crashes_to(channel.descriptor());
  LauncherLine line(std::move(channel), page, welcome.heartbeat_seconds);
  std::unique_ptr<MpiSession> session;  // outlives the communicators of the ranks
  PoolSettings settings;
  settings.lone = LoneRank{welcome.spin, welcome.cores, [&](const Topology& topology) {
                             return connect(session, variables, welcome, topology);
                           }};
  RequestHandler handler(page, std::move(settings));
  for (bool last = false; !last;) {
    const WorkerRequest request = decode_request(line.next());
    last = std::holds_alternative<request::Exit>(request);
    if (!line.answer(encode(handler.answer(request)))) return;
  }
}

}  // namespace dettax
