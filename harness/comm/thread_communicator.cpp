#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/error.h"
#include "harness/comm/communicator.h"
#include "harness/comm/reduce.h"
#include "harness/comm/thread_group.h"

namespace dettax {
namespace {

// Part `part` of `count` elements, cut at cache lines so that no two ranks write the same one.
int64_t part_begin(int64_t count, int part, int parts) {
  constexpr int64_t kLine = 16;
  return std::min(count, (count * part / parts + kLine - 1) / kLine * kLine);
}

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank)
      : group_(std::move(group)),
        rank_(rank),
        inputs_(static_cast<size_t>(size())),
        outputs_(static_cast<size_t>(size())) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  std::unique_ptr<Communicator> split(int colour, int key) override;
  void all_reduce(float* data, int64_t count, Order order) override;
  void reduce_scatter(const float* in, float* out, int64_t count, Order order) override;
  void all_gather(const void* in, void* out, int64_t bytes) override;
  void broadcast(void* data, int64_t bytes, int root) override;
  void all_to_all(const void* in, void* out, int64_t bytes) override;
  void send(const void* data, int64_t bytes, int to) override;
  void receive(void* data, int64_t bytes, int from) override;
  void barrier() override { group_->barrier(); }
  void abort(const std::string& reason) override { group_->abort(reason); }
  CommunicationStats stats() const override { return stats_; }

 private:
  // Counts a collective and the time it took on this rank, waiting included.
  class Counted {
   public:
    Counted(CommunicationStats& stats, int64_t bytes) : stats_(stats) {
      stats_.calls += 1;
      stats_.bytes += bytes;
    }
    ~Counted() { stats_.time_ns += (std::chrono::steady_clock::now() - start_).count(); }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

   private:
    CommunicationStats& stats_;
    std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds> start_ =
        std::chrono::steady_clock::now();
  };

  void publish(const void* in, void* out, int64_t count) {
    group_->published(rank_) = {in, out, count, nullptr};
  }
  void require_same_count(int other) const;
  void require_rank(int rank) const;
  // Both sum elements [begin, begin + count) of all ranks' inputs; the first after everybody has
  // published.
  void reduce(Order order, std::span<float* const> outputs, int64_t begin, int64_t count);
  void reduce_as_ranks_arrive(float* sum, bool to_all, int64_t begin, int64_t count);
  std::span<float* const> all_outputs(int64_t begin);
  template <typename Copy>
  void exchange(const void* in, int64_t bytes, const Copy& copy_from);

  std::shared_ptr<ThreadGroup> group_;
  const int rank_;
  uint32_t arrival_round_ = 0;
  std::vector<const float*> inputs_;
  std::vector<float*> outputs_;
  CommunicationStats stats_;
};

void ThreadCommunicator::require_same_count(int other) const {
  const int64_t mine = group_->published(rank_).count;
  const int64_t theirs = group_->published(other).count;
  if (mine == theirs) return;
  throw Error(ErrorKind::internal,
              "ranks " + std::to_string(rank_) + " and " + std::to_string(other) +
                  " call the same collective with different sizes: " + std::to_string(mine) +
                  " and " + std::to_string(theirs));
}

void ThreadCommunicator::require_rank(int rank) const {
  if (rank >= 0 && rank < size()) return;
  throw Error(ErrorKind::internal,
              "no rank " + std::to_string(rank) + " in a group of " + std::to_string(size()));
}

// The outputs of all ranks, from element `begin` on.
std::span<float* const> ThreadCommunicator::all_outputs(int64_t begin) {
  for (int r = 0; r < size(); ++r)
    outputs_[static_cast<size_t>(r)] = static_cast<float*>(group_->published(r).out) + begin;
  return outputs_;
}

void ThreadCommunicator::reduce(Order order, std::span<float* const> outputs, int64_t begin,
                                int64_t count) {
  for (int r = 0; r < size(); ++r) {
    require_same_count(r);
    inputs_[static_cast<size_t>(r)] = static_cast<const float*>(group_->published(r).in) + begin;
  }
  const ThreadGroup::ReadScope scope(*group_);
  if (order == Order::invariant) {
    sum_as_tree(inputs_, outputs, count);
  } else {
    sum_in_sequence(inputs_, outputs, count);
  }
}

// Whoever has arrived by now is added in one pass over memory, in order of arrival, the rest as
// they come; where a rank that waits has no core to itself, all in one pass. The first pass goes on
// until this rank's own place, because `sum` may be where its own input lies. The last pass knows
// every rank and may write into their outputs.
void ThreadCommunicator::reduce_as_ranks_arrive(float* sum, bool to_all, int64_t begin,
                                                int64_t count) {
  const uint32_t round = arrival_round_++;
  group_->join(rank_);
  bool own_read = false;
  const auto worth_waiting = [&](size_t n, int place) {
    return !own_read || n < 2 || !group_->spins() || group_->has_joined(place, round);
  };
  for (int place = 0; place < size();) {
    size_t n = 0;
    if (place > 0) inputs_[n++] = sum;
    do {
      const int other = group_->who(place++, round);
      require_same_count(other);
      own_read = own_read || other == rank_;
      inputs_[n++] = static_cast<const float*>(group_->published(other).in) + begin;
    } while (place < size() && worth_waiting(n, place));
    const ThreadGroup::ReadScope scope(*group_);
    const bool last = place == size();
    sum_in_sequence(std::span(inputs_).first(n),
                    last && to_all ? all_outputs(begin) : std::span(&sum, 1), count);
  }
}

void ThreadCommunicator::all_reduce(float* data, int64_t count, Order order) {
  const Counted counted(stats_, count * static_cast<int64_t>(sizeof(float)));
  if (size() == 1) return;
  publish(data, data, count);
  const int64_t begin = part_begin(count, rank_, size());
  const int64_t part = part_begin(count, rank_ + 1, size()) - begin;
  if (order == Order::arrival) {
    reduce_as_ranks_arrive(data + begin, true, begin, part);
  } else {
    group_->barrier();
    reduce(order, all_outputs(begin), begin, part);
  }
  group_->barrier();
}

void ThreadCommunicator::reduce_scatter(const float* in, float* out, int64_t count, Order order) {
  const Counted counted(stats_, count * size() * static_cast<int64_t>(sizeof(float)));
  publish(in, out, count);
  if (order == Order::arrival) {
    reduce_as_ranks_arrive(out, false, rank_ * count, count);
  } else {
    group_->barrier();
    reduce(order, std::span(&out, 1), rank_ * count, count);
  }
  group_->barrier();
}

// Publishes, and copies from every rank (starting at this one, so that not all read the same rank
// at once) what copy_from says.
template <typename Copy>
void ThreadCommunicator::exchange(const void* in, int64_t bytes, const Copy& copy_from) {
  publish(in, nullptr, bytes);
  group_->barrier();
  for (int i = 0; i < size(); ++i) {
    const int other = (rank_ + i) % size();
    require_same_count(other);
    const ThreadGroup::ReadScope scope(*group_);
    copy_from(other, static_cast<const char*>(group_->published(other).in));
  }
  group_->barrier();
}

void ThreadCommunicator::all_gather(const void* in, void* out, int64_t bytes) {
  const Counted counted(stats_, bytes);
  exchange(in, bytes, [&](int other, const char* from) {
    char* to = static_cast<char*>(out) + other * bytes;
    if (to != from) std::memcpy(to, from, static_cast<size_t>(bytes));
  });
}

void ThreadCommunicator::broadcast(void* data, int64_t bytes, int root) {
  const Counted counted(stats_, bytes);
  require_rank(root);
  exchange(data, bytes, [&](int other, const char* from) {
    if (other == root && rank_ != root) std::memcpy(data, from, static_cast<size_t>(bytes));
  });
}

void ThreadCommunicator::all_to_all(const void* in, void* out, int64_t bytes) {
  const Counted counted(stats_, bytes * size());
  exchange(in, bytes, [&](int other, const char* from) {
    std::memcpy(static_cast<char*>(out) + other * bytes, from + rank_ * bytes,
                static_cast<size_t>(bytes));
  });
}

// A mailbox holds one message: send() copies into it and waits only if the one before has not been
// received yet.
void ThreadCommunicator::send(const void* data, int64_t bytes, int to) {
  const Counted counted(stats_, bytes);
  require_rank(to);
  Mailbox& mailbox = group_->mailbox(rank_, to);
  for (uint32_t now = mailbox.word.value(); Mailbox::filled(now); now = mailbox.word.value())
    group_->wait(mailbox.word, now);
  group_->throw_if_aborted();
  mailbox.content.assign(static_cast<const char*>(data), static_cast<const char*>(data) + bytes);
  mailbox.word.advance();
}

void ThreadCommunicator::receive(void* data, int64_t bytes, int from) {
  const Counted counted(stats_, bytes);
  require_rank(from);
  Mailbox& mailbox = group_->mailbox(from, rank_);
  for (uint32_t now = mailbox.word.value(); !Mailbox::filled(now); now = mailbox.word.value())
    group_->wait(mailbox.word, now);
  group_->throw_if_aborted();
  if (static_cast<int64_t>(mailbox.content.size()) != bytes) {
    throw Error(ErrorKind::internal, "rank " + std::to_string(rank_) + " receives " +
                                         std::to_string(bytes) + " bytes, but rank " +
                                         std::to_string(from) + " sent " +
                                         std::to_string(mailbox.content.size()));
  }
  std::memcpy(data, mailbox.content.data(), static_cast<size_t>(bytes));
  mailbox.word.advance();
}

std::unique_ptr<Communicator> ThreadCommunicator::split(int colour, int key) {
  const std::array<int, 2> mine{colour, key};
  std::vector<std::array<int, 2>> all(static_cast<size_t>(size()));
  all_gather(mine.data(), all.data(), sizeof(mine));
  std::vector<int> members;
  for (int r = 0; r < size(); ++r) {
    if (all[static_cast<size_t>(r)][0] == colour) members.push_back(r);
  }
  std::ranges::stable_sort(members, {}, [&](int r) { return all[static_cast<size_t>(r)][1]; });
  const int leader = members.front();
  if (leader == rank_) {
    auto created = std::make_shared<ThreadGroup>(static_cast<int>(members.size()), group_->spins());
    group_->adopt(created);
    group_->published(rank_).group = std::move(created);
  }
  group_->barrier();
  auto group = group_->published(leader).group;
  group_->barrier();
  group_->published(rank_).group.reset();
  const auto position = std::ranges::find(members, rank_) - members.begin();
  return std::make_unique<ThreadCommunicator>(std::move(group), static_cast<int>(position));
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int ranks, bool spin) {
  if (ranks < 1)
    throw Error(ErrorKind::internal,
                "a group needs at least one rank, not " + std::to_string(ranks));
  auto group = std::make_shared<ThreadGroup>(ranks, spin);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int r = 0; r < ranks; ++r)
    communicators.push_back(std::make_unique<ThreadCommunicator>(group, r));
  return communicators;
}

}  // namespace dettax
