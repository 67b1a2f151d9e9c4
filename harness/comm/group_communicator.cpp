#include "harness/comm/group_communicator.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/error.h"
#include "harness/comm/collectives.h"
#include "harness/comm/progress_thread.h"

namespace dettax {
namespace {

using Clock = std::chrono::steady_clock;

int64_t ns_since(Clock::time_point start) { return (Clock::now() - start).count(); }

class GroupCommunicator : public Communicator {
  using Sizes = std::vector<int64_t>;
  static constexpr auto kFloat = static_cast<int64_t>(sizeof(float));

  class Queued;
  class Counted;

  void require_rank(int rank) const;
  Sizes same(int64_t bytes) const { return Sizes(static_cast<size_t>(size()), bytes); }
  Sizes checked(std::span<const int64_t> sizes) const;
  static int64_t sum(const Sizes& sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  }

  // What each collective does, on whatever thread.
  auto all_reduce_of(float* data, int64_t count, Order order) {
    return [=, this] { collectives_.all_reduce(data, count, order); };
  }
  auto reduce_scatter_of(const float* in, float* out, int64_t count, Order order) {
    return [=, this] { collectives_.reduce_scatter(in, out, count, order); };
  }
  auto all_gather_of(const void* in, void* out, int64_t bytes) {
    return [=, this] { collectives_.all_gather(in, out, bytes); };
  }
  auto all_to_all_of(const void* in, Sizes send_bytes, void* out, Sizes receive_bytes) {
    return [this, in, out, to = std::move(send_bytes), from = std::move(receive_bytes)] {
      transport_->all_to_all(in, to, out, from);
    };
  }

 public:
  GroupCommunicator(std::unique_ptr<Transport> transport, const CollectiveSettings& settings)
      : transport_(std::move(transport)),
        settings_(settings),
        collectives_(*transport_, settings.algorithm) {
    settings_.node_of_rank = transport_->node_of_rank();
    stats_.links_emulated = settings_.emulates_links();
    sent_.resize(static_cast<size_t>(transport_->size()));
    received_.resize(sent_.size());
  }

  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }
  std::unique_ptr<Communicator> split(int colour, int key) override {
    drain();
    return make_group_communicator(transport_->split(colour, key), settings_);
  }

  void all_reduce(float* data, int64_t count, Order order) override {
    now(OperationKind::all_reduce, count * kFloat, all_reduce_of(data, count, order));
  }
  void reduce_scatter(const float* in, float* out, int64_t count, Order order) override {
    now(OperationKind::reduce_scatter, count * size() * kFloat,
        reduce_scatter_of(in, out, count, order));
  }
  void all_gather(const void* in, void* out, int64_t bytes) override {
    now(OperationKind::all_gather, bytes, all_gather_of(in, out, bytes));
  }
  void broadcast(void* data, int64_t bytes, int root) override {
    require_rank(root);
    now(OperationKind::broadcast, bytes, [&] { transport_->broadcast(data, bytes, root); });
  }
  void all_to_all(const void* in, void* out, int64_t bytes) override {
    now(OperationKind::all_to_all, bytes * size(),
        all_to_all_of(in, same(bytes), out, same(bytes)));
  }
  void all_to_all_v(const void* in, std::span<const int64_t> send_bytes, void* out,
                    std::span<const int64_t> receive_bytes) override {
    const auto sizes = checked(send_bytes);
    now(OperationKind::all_to_all, sum(sizes),
        all_to_all_of(in, sizes, out, checked(receive_bytes)));
  }
  void send(const void* data, int64_t bytes, int to) override {
    require_rank(to);
    telling(next_message(OperationKind::send, bytes, to),
            [&] { timed(OperationKind::send, bytes, [&] { transport_->send(data, bytes, to); }); });
  }
  void receive(void* data, int64_t bytes, int from) override {
    require_rank(from);
    telling(next_message(OperationKind::receive, bytes, from), [&] {
      timed(OperationKind::receive, bytes,
            [&] { transport_->start_receive(data, bytes, from)->wait(); });
    });
  }
  void barrier() override {
    now(OperationKind::barrier, 0, [&] { transport_->barrier(); });
  }
  void abort(const std::string& reason) override { transport_->abort(reason); }

  Request start_all_reduce(float* data, int64_t count, Order order) override {
    return start(OperationKind::all_reduce, count * kFloat, all_reduce_of(data, count, order));
  }
  Request start_reduce_scatter(const float* in, float* out, int64_t count, Order order) override {
    return start(OperationKind::reduce_scatter, count * size() * kFloat,
                 reduce_scatter_of(in, out, count, order));
  }
  Request start_all_gather(const void* in, void* out, int64_t bytes) override {
    return start(OperationKind::all_gather, bytes, all_gather_of(in, out, bytes));
  }
  Request start_all_to_all(const void* in, void* out, int64_t bytes) override {
    return start(OperationKind::all_to_all, bytes * size(),
                 all_to_all_of(in, same(bytes), out, same(bytes)));
  }
  Request start_all_to_all_v(const void* in, std::span<const int64_t> send_bytes, void* out,
                             std::span<const int64_t> receive_bytes) override {
    const auto sizes = checked(send_bytes);
    return start(OperationKind::all_to_all, sum(sizes),
                 all_to_all_of(in, sizes, out, checked(receive_bytes)));
  }
  Request start_send(const void* data, int64_t bytes, int to) override {
    require_rank(to);
    const Communication what = next_message(OperationKind::send, bytes, to);
    if (listens()) listener_->on_handed_over(what);
    return message(what, transport_->start_send(data, bytes, to));
  }
  Request start_receive(void* data, int64_t bytes, int from) override {
    require_rank(from);
    return message(next_message(OperationKind::receive, bytes, from),
                   transport_->start_receive(data, bytes, from));
  }

  void listen(CommunicationListener* listener, const std::string& group_name) override;

  const CollectiveSettings& settings() const override { return settings_; }
  CommunicationStats stats() const override { return stats_; }

 private:
  // To another rank, or from it.
  struct Peer {
    std::string name;  // of the two
    int64_t messages = 0;
  };

  bool listens() const { return listener_ != nullptr && size() > 1; }
  Communication next_collective(OperationKind kind, int64_t bytes) {
    return {kind, group_name_, collectives_called_++, size(), bytes};
  }
  Communication next_message(OperationKind kind, int64_t bytes, int with) {
    Peer& peer = (kind == OperationKind::send ? sent_ : received_)[static_cast<size_t>(with)];
    return {kind, peer.name, peer.messages++, 2, bytes};
  }
  template <typename Wait>
  void telling(const Communication& what, const Wait& wait) {
    if (listens()) listener_->on_wait();
    wait();
    if (listens()) listener_->on_communicated(what);
  }
  void count(OperationKind kind, const OperationStats& one);
  void drain();
  template <typename Work>
  void timed(OperationKind kind, int64_t bytes, const Work& work);
  template <typename Work>
  void now(OperationKind kind, int64_t bytes, const Work& work);
  template <typename Work>
  Request start(OperationKind kind, int64_t bytes, Work work);
  Request message(const Communication& what, std::unique_ptr<Request::Operation> operation);

  std::unique_ptr<Transport> transport_;
  CollectiveSettings settings_;
  Collectives collectives_;
  CommunicationStats stats_;
  CommunicationListener* listener_ = nullptr;
  std::string group_name_;
  int64_t collectives_called_ = 0;
  std::vector<Peer> sent_, received_;         // by rank
  std::unique_ptr<ProgressThread> progress_;  // from the first start of a collective on
};

// A collective in the queue of the progress thread.
class GroupCommunicator::Queued : public Request::Operation {
 public:
  Queued(GroupCommunicator& owner, const Communication& what, std::function<void()> work)
      : owner_(owner), what_(what) {
    task_.work = std::move(work);
    owner_.progress_->push(task_);
  }
  ~Queued() override {
    if (waited_) return;
    if (!done()) give_up();
    owner_.progress_->wait(task_);
  }
  Queued(const Queued&) = delete;
  Queued& operator=(const Queued&) = delete;

  void wait() override {
    if (owner_.listens()) owner_.listener_->on_wait();
    const auto start = Clock::now();
    owner_.progress_->wait(task_);
    waited_ = true;
    owner_.count(what_.kind, {1, what_.payload_bytes, task_.time_ns, ns_since(start)});
    if (task_.error) std::rethrow_exception(task_.error);
    if (!owner_.listens()) return;
    what_.began_ns_ago = ns_since(task_.began);
    what_.ended_ns_ago = what_.began_ns_ago - task_.time_ns;
    owner_.listener_->on_communicated(what_);
  }
  bool done() override { return owner_.progress_->finished(task_); }

 private:
  // Whoever is being unwound says why by abort(); nobody would where a request is just dropped.
  void give_up() {
    if (std::uncaught_exceptions() == 0)
      owner_.abort("rank " + std::to_string(owner_.rank()) +
                   " let go of a collective before it had finished");
    owner_.collectives_.abandon();
  }

  GroupCommunicator& owner_;
  Communication what_;
  bool waited_ = false;
  ProgressThread::Task task_;
};

// A message under way, counted when it is waited for.
class GroupCommunicator::Counted : public Request::Operation {
 public:
  Counted(GroupCommunicator& owner, const Communication& what,
          std::unique_ptr<Request::Operation> message)
      : owner_(owner), what_(what), message_(std::move(message)) {}

  void wait() override {
    owner_.telling(what_, [&] {
      const auto waited = Clock::now();
      message_->wait();
      owner_.count(what_.kind, {1, what_.payload_bytes, ns_since(started_), ns_since(waited)});
    });
  }
  bool done() override { return message_->done(); }

 private:
  GroupCommunicator& owner_;
  const Communication what_;
  const Clock::time_point started_ = Clock::now();
  std::unique_ptr<Request::Operation> message_;
};

void GroupCommunicator::require_rank(int rank) const {
  if (rank >= 0 && rank < size()) return;
  throw Error(ErrorKind::internal,
              "no rank " + std::to_string(rank) + " in a group of " + std::to_string(size()));
}

GroupCommunicator::Sizes GroupCommunicator::checked(std::span<const int64_t> sizes) const {
  if (static_cast<int>(sizes.size()) != size())
    throw Error(ErrorKind::internal, std::to_string(sizes.size()) + " sizes for all-to-all of " +
                                         std::to_string(size()) + " ranks");
  return Sizes(sizes.begin(), sizes.end());
}

void GroupCommunicator::count(OperationKind kind, const OperationStats& one) {
  const auto add = [&one](OperationStats& to) {
    to.calls += one.calls;
    to.bytes += one.bytes;
    to.time_ns += one.time_ns;
    to.exposed_ns += one.exposed_ns;
  };
  add(stats_.kinds[static_cast<size_t>(kind)]);
  if (kind != OperationKind::barrier) add(stats_);
}

// What was started comes before what is called now. Afterwards the transport is this thread's.
void GroupCommunicator::drain() {
  if (progress_) progress_->drain();
  collectives_.set_spin(true);
}

template <typename Work>
void GroupCommunicator::timed(OperationKind kind, int64_t bytes, const Work& work) {
  const auto start = Clock::now();
  work();
  const int64_t time_ns = ns_since(start);
  count(kind, {1, bytes, time_ns, time_ns});
}

// This rank has come to it when all that it started before has ended.
template <typename Work>
void GroupCommunicator::now(OperationKind kind, int64_t bytes, const Work& work) {
  timed(kind, bytes, [&] {
    drain();
    telling(next_collective(kind, bytes), work);
  });
}

// Alone there is nobody to wait for. The progress thread never polls: the core is its caller's.
template <typename Work>
Request GroupCommunicator::start(OperationKind kind, int64_t bytes, Work work) {
  if (size() == 1) {
    now(kind, bytes, work);
    return {};
  }
  if (!progress_) progress_ = std::make_unique<ProgressThread>();
  const Communication what = next_collective(kind, bytes);
  return Request(std::make_unique<Queued>(*this, what, [this, work = std::move(work)] {
    collectives_.set_spin(false);
    work();
  }));
}

Request GroupCommunicator::message(const Communication& what,
                                   std::unique_ptr<Request::Operation> operation) {
  return Request(std::make_unique<Counted>(*this, what, std::move(operation)));
}

void GroupCommunicator::listen(CommunicationListener* listener, const std::string& group_name) {
  listener_ = listener;
  if (group_name == group_name_) return;
  group_name_ = group_name;
  for (int other = 0; other < size(); ++other) {
    const auto name = [&](int from, int to) {
      return group_name + " " + std::to_string(from) + ">" + std::to_string(to);
    };
    sent_[static_cast<size_t>(other)].name = name(rank(), other);
    received_[static_cast<size_t>(other)].name = name(other, rank());
  }
}

}  // namespace

std::unique_ptr<Communicator> make_group_communicator(std::unique_ptr<Transport> transport,
                                                      const CollectiveSettings& settings) {
  return std::make_unique<GroupCommunicator>(std::move(transport), settings);
}

}  // namespace dettax
