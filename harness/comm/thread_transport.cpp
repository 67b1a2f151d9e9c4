#include "harness/comm/thread_transport.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/error.h"
#include "harness/comm/reduce.h"

namespace dettax {
namespace {

constexpr auto kFloat = static_cast<int64_t>(sizeof(float));

[[noreturn]] void throw_different_sizes(int rank, int other, int64_t mine, int64_t theirs) {
  throw Error(ErrorKind::internal,
              "ranks " + std::to_string(rank) + " and " + std::to_string(other) +
                  " call the same collective with different sizes: " + std::to_string(mine) +
                  " and " + std::to_string(theirs));
}

// A send or receive that was started. Its channel lives in the group, which its transport holds.
class PostedMessage : public Request::Operation {
 public:
  static std::unique_ptr<PostedMessage> send(MessageChannel& channel, const void* data,
                                             int64_t bytes, bool spin) {
    auto posted = std::make_unique<PostedMessage>(channel, bytes, spin, std::string());
    posted->message_.source = data;
    channel.post_send(posted->message_);
    return posted;
  }
  static std::unique_ptr<PostedMessage> receive(MessageChannel& channel, void* data, int64_t bytes,
                                                bool spin, const std::string& who) {
    auto posted = std::make_unique<PostedMessage>(channel, bytes, spin, who);
    posted->message_.target = data;
    channel.post_receive(posted->message_);
    return posted;
  }

  PostedMessage(MessageChannel& channel, int64_t bytes, bool spin, std::string who)
      : channel_(channel), spin_(spin), who_(std::move(who)) {
    message_.bytes = bytes;
  }
  ~PostedMessage() override { channel_.withdraw(message_); }
  PostedMessage(const PostedMessage&) = delete;
  PostedMessage& operator=(const PostedMessage&) = delete;

  void wait() override {
    channel_.wait(message_, spin_);
    if (!message_.fault.empty()) throw Error(ErrorKind::internal, who_ + message_.fault);
  }
  bool done() override { return channel_.finished(message_); }

 private:
  MessageChannel& channel_;
  Message message_;
  const bool spin_;
  const std::string who_;
};

class ThreadTransport : public Transport {
 public:
  ThreadTransport(std::shared_ptr<ThreadGroup> group, int rank)
      : group_(std::move(group)),
        waiter_{rank, group_->spins()},
        sent_(static_cast<size_t>(size())),
        received_(static_cast<size_t>(size())),
        inputs_(static_cast<size_t>(size())),
        outputs_(static_cast<size_t>(size())) {}
  ~ThreadTransport() override {
    if (abandoned_) group_->abort("rank " + std::to_string(rank()) + " left a collective");
  }
  ThreadTransport(const ThreadTransport&) = delete;
  ThreadTransport& operator=(const ThreadTransport&) = delete;

  int rank() const override { return waiter_.rank; }
  int size() const override { return group_->size(); }
  const std::vector<int>& node_of_rank() const override { return group_->node_of_rank(); }
  std::unique_ptr<Transport> split(int colour, int key) override;
  void reduce(const Reduction& reduction) override;
  void exchange(const Exchange& exchange) override;
  bool has_arrived(int from) override {
    return !SignalWord::same_count(group_->slot(from, rank()).posted.value(),
                                   SignalWord::after(received_[static_cast<size_t>(from)]));
  }
  void gather(const void* in, void* out, std::span<const Range> parts) override;
  void all_to_all(const void* in, std::span<const int64_t> send_bytes, void* out,
                  std::span<const int64_t> receive_bytes) override;
  void broadcast(void* data, int64_t bytes, int root) override;
  void barrier() override { group_->barrier(waiter_); }
  void send(const void* data, int64_t bytes, int to) override {
    group_->channel(rank(), to).send(data, bytes);
  }
  std::unique_ptr<Request::Operation> start_send(const void* data, int64_t bytes, int to) override;
  std::unique_ptr<Request::Operation> start_receive(void* data, int64_t bytes, int from) override;
  void abort(const std::string& reason) override { group_->abort(reason); }
  void abandon() override;
  void set_spin(bool spin) override { waiter_.spin = spin && group_->spins(); }

 private:
  void publish(const void* in, void* out, int64_t count) {
    group_->published(rank()) = {in, out, count, nullptr, nullptr};
  }
  void require_same_count(int other) const;
  const float* input_of(int other, int64_t begin) const;
  std::span<float* const> outputs(const Reduction& reduction, bool all, int64_t begin);
  void reduce_in_order(const Reduction& reduction, const Range& part);
  void reduce_as_ranks_arrive(const Reduction& reduction, const Range& part);
  void take(const Exchange& exchange, const ThreadGroup::Slot& slot);
  // Waits until what each other rank sends, or this one sends to each other, has come over the
  // emulated links. bytes_of(r): how much; less than nothing: not at all.
  template <typename Bytes>
  void wait_for_all(bool from_others, const Bytes& bytes_of);
  template <typename Bytes, typename Copy>
  void read_from_each(const Bytes& bytes_of, const Copy& copy_from);

  std::shared_ptr<ThreadGroup> group_;
  ThreadGroup::Waiter waiter_;
  bool abandoned_ = false;
  uint32_t arrival_round_ = 0;
  std::vector<uint32_t> sent_, received_;  // steps with each other rank
  std::vector<const float*> inputs_;
  std::vector<float*> outputs_;
};

void ThreadTransport::require_same_count(int other) const {
  const int64_t mine = group_->published(rank()).count;
  const int64_t theirs = group_->published(other).count;
  if (mine != theirs) throw_different_sizes(rank(), other, mine, theirs);
}

const float* ThreadTransport::input_of(int other, int64_t begin) const {
  require_same_count(other);
  return static_cast<const float*>(group_->published(other).in) + begin;
}

// Where the sum goes: this rank's part, or the same place on all ranks.
std::span<float* const> ThreadTransport::outputs(const Reduction& reduction, bool all,
                                                 int64_t begin) {
  if (!all) {
    outputs_[0] = reduction.to_all ? reduction.out + begin : reduction.out;
    return std::span(outputs_).first(1);
  }
  for (int r = 0; r < size(); ++r)
    outputs_[static_cast<size_t>(r)] = static_cast<float*>(group_->published(r).out) + begin;
  return outputs_;
}

void ThreadTransport::reduce(const Reduction& reduction) {
  publish(reduction.in, reduction.out, reduction.parts.back().end);
  const Range& part = reduction.parts[static_cast<size_t>(rank())];
  if (reduction.order == Order::arrival) {
    reduce_as_ranks_arrive(reduction, part);
  } else {
    barrier();
    wait_for_all(true, [&](int) { return part.size() * kFloat; });
    reduce_in_order(reduction, part);
  }
  if (reduction.to_all) wait_for_all(false, [&](int) { return part.size() * kFloat; });
  barrier();
}

template <typename Bytes>
void ThreadTransport::wait_for_all(bool from_others, const Bytes& bytes_of) {
  if (!group_->emulates_links()) return;
  const int64_t now = steady_now_ns();
  int64_t due = 0;
  for (int i = 1; i < size(); ++i) {
    const int other = (rank() + i) % size();
    if (bytes_of(other) < 0) continue;
    due = std::max(due, group_->arrival_ns(from_others ? other : rank(),
                                           from_others ? rank() : other, bytes_of(other), now));
  }
  group_->wait_until(due, waiter_);
}

void ThreadTransport::reduce_in_order(const Reduction& reduction, const Range& part) {
  for (int r = 0; r < size(); ++r) inputs_[static_cast<size_t>(r)] = input_of(r, part.begin);
  const ThreadGroup::ReadScope scope(*group_, waiter_);
  const auto out = outputs(reduction, reduction.to_all, part.begin);
  if (reduction.order == Order::invariant) {
    sum_as_tree(inputs_, out, part.size());
  } else {
    sum_in_sequence(inputs_, out, part.size());
  }
}

// Whoever has arrived by now is added in one pass over memory, in order of arrival, the rest as
// they come; where a rank that waits has no core to itself, all in one pass. The first pass goes on
// until this rank's own place, because its sum may be where its own input lies. The last pass knows
// every rank and may write into their outputs.
void ThreadTransport::reduce_as_ranks_arrive(const Reduction& reduction, const Range& part) {
  const uint32_t round = arrival_round_++;
  const int64_t joined = group_->emulates_links() ? steady_now_ns() : 0;
  group_->join(rank());
  bool own_read = false;
  const auto worth_waiting = [&](size_t n, int place) {
    return !own_read || n < 2 || !waiter_.spin || group_->has_joined(place, round);
  };
  for (int place = 0; place < size();) {
    size_t n = 0;
    if (place > 0) inputs_[n++] = outputs(reduction, false, part.begin).front();
    do {
      const int other = group_->who(place, round, waiter_);
      if (other != rank() && group_->emulates_links()) {
        const int64_t ready = std::max(joined, group_->joined_ns(place));
        group_->wait_until(group_->arrival_ns(other, rank(), part.size() * kFloat, ready), waiter_);
      }
      ++place;
      own_read = own_read || other == rank();
      inputs_[n++] = input_of(other, part.begin);
    } while (place < size() && worth_waiting(n, place));
    const ThreadGroup::ReadScope scope(*group_, waiter_);
    const bool last = place == size();
    sum_in_sequence(std::span(inputs_).first(n),
                    outputs(reduction, last && reduction.to_all, part.begin), part.size());
  }
}

void ThreadTransport::exchange(const Exchange& exchange) {
  ThreadGroup::Slot* out = exchange.to < 0 ? nullptr : &group_->slot(rank(), exchange.to);
  if (out != nullptr) {
    out->data = exchange.send;
    out->bytes = exchange.send_count * exchange.element_bytes;
    out->posted_ns = group_->emulates_links() ? steady_now_ns() : 0;
    out->posted.advance();
  }
  if (exchange.from >= 0) {
    ThreadGroup::Slot& in = group_->slot(exchange.from, rank());
    group_->wait_for_step(in.posted, received_[static_cast<size_t>(exchange.from)]++, waiter_);
    take(exchange, in);
    in.taken.advance();
  }
  if (out != nullptr)
    group_->wait_for_step(out->taken, sent_[static_cast<size_t>(exchange.to)]++, waiter_);
}

void ThreadTransport::take(const Exchange& exchange, const ThreadGroup::Slot& slot) {
  const int64_t bytes = exchange.receive_count * exchange.element_bytes;
  if (slot.bytes != bytes) throw_different_sizes(rank(), exchange.from, bytes, slot.bytes);
  group_->wait_until(group_->arrival_ns(exchange.from, rank(), bytes, slot.posted_ns), waiter_);
  if (bytes == 0) return;
  const ThreadGroup::ReadScope scope(*group_, waiter_);
  if (exchange.addend == nullptr) {
    std::memcpy(exchange.receive, slot.data, static_cast<size_t>(bytes));
    return;
  }
  const std::array inputs{exchange.addend, static_cast<const float*>(slot.data)};
  const std::array outputs{static_cast<float*>(exchange.receive)};
  sum_in_sequence(inputs, outputs, exchange.receive_count);
}

// Copies from every rank (starting at this one, so that not all read the same rank at once) what
// copy_from says.
template <typename Bytes, typename Copy>
void ThreadTransport::read_from_each(const Bytes& bytes_of, const Copy& copy_from) {
  barrier();
  for (int i = 0; i < size(); ++i) {
    const int other = (rank() + i) % size();
    const ThreadGroup::ReadScope scope(*group_, waiter_);
    copy_from(other, static_cast<const char*>(group_->published(other).in));
  }
  wait_for_all(true, bytes_of);
  barrier();
}

void ThreadTransport::gather(const void* in, void* out, std::span<const Range> parts) {
  publish(in, out, parts.back().end);
  const auto bytes_of = [&](int other) { return parts[static_cast<size_t>(other)].size(); };
  read_from_each(bytes_of, [&](int other, const char* from) {
    require_same_count(other);
    const Range& part = parts[static_cast<size_t>(other)];
    char* to = static_cast<char*>(out) + part.begin;
    if (to != from && part.size() > 0) std::memcpy(to, from, static_cast<size_t>(part.size()));
  });
}

void ThreadTransport::broadcast(void* data, int64_t bytes, int root) {
  publish(data, nullptr, bytes);
  const auto bytes_of = [&](int other) { return other == root ? bytes : -1; };
  read_from_each(bytes_of, [&](int other, const char* from) {
    require_same_count(other);
    if (other == root && rank() != root && bytes > 0)
      std::memcpy(data, from, static_cast<size_t>(bytes));
  });
}

void ThreadTransport::all_to_all(const void* in, std::span<const int64_t> send_bytes, void* out,
                                 std::span<const int64_t> receive_bytes) {
  publish(in, out, 0);
  group_->published(rank()).parts = send_bytes.data();
  const auto bytes_of = [&](int other) { return receive_bytes[static_cast<size_t>(other)]; };
  read_from_each(bytes_of, [&](int other, const char* from) {
    const int64_t* sizes = group_->published(other).parts;
    const int64_t bytes = bytes_of(other);
    if (sizes[rank()] != bytes) throw_different_sizes(rank(), other, bytes, sizes[rank()]);
    if (bytes == 0) return;
    const int64_t at =
        std::accumulate(receive_bytes.begin(), receive_bytes.begin() + other, int64_t{0});
    std::memcpy(static_cast<char*>(out) + at,
                from + std::accumulate(sizes, sizes + rank(), int64_t{0}),
                static_cast<size_t>(bytes));
  });
}

std::unique_ptr<Request::Operation> ThreadTransport::start_send(const void* data, int64_t bytes,
                                                                int to) {
  return PostedMessage::send(group_->channel(rank(), to), data, bytes, group_->spins());
}

std::unique_ptr<Request::Operation> ThreadTransport::start_receive(void* data, int64_t bytes,
                                                                   int from) {
  return PostedMessage::receive(
      group_->channel(from, rank()), data, bytes, group_->spins(),
      "rank " + std::to_string(rank()) + " receives from rank " + std::to_string(from) + ": ");
}

void ThreadTransport::abandon() {
  abandoned_ = true;
  group_->abandon(rank());
}

std::unique_ptr<Transport> ThreadTransport::split(int colour, int key) {
  const std::array<int, 2> mine{colour, key};
  std::vector<std::array<int, 2>> all(static_cast<size_t>(size()));
  std::vector<Range> parts(static_cast<size_t>(size()));
  constexpr auto kBytes = static_cast<int64_t>(sizeof(mine));
  for (int r = 0; r < size(); ++r) parts[static_cast<size_t>(r)] = {r * kBytes, (r + 1) * kBytes};
  gather(mine.data(), all.data(), parts);
  std::vector<int> members;
  for (int r = 0; r < size(); ++r) {
    if (all[static_cast<size_t>(r)][0] == colour) members.push_back(r);
  }
  std::ranges::stable_sort(members, {}, [&](int r) { return all[static_cast<size_t>(r)][1]; });
  const int leader = members.front();
  if (leader == rank()) {
    auto created = group_->make_child(members);
    group_->adopt(created);
    group_->published(rank()).group = std::move(created);
  }
  barrier();
  auto group = group_->published(leader).group;
  barrier();
  group_->published(rank()).group.reset();
  const auto position = std::ranges::find(members, rank()) - members.begin();
  return make_thread_transport(std::move(group), static_cast<int>(position));
}

}  // namespace

std::unique_ptr<Transport> make_thread_transport(std::shared_ptr<ThreadGroup> group, int rank) {
  return std::make_unique<ThreadTransport>(std::move(group), rank);
}

}  // namespace dettax
