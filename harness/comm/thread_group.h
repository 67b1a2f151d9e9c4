#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "harness/comm/link_emulation.h"
#include "harness/comm/message_channel.h"
#include "harness/comm/signal_word.h"

namespace dettax {

// What the ranks of one group over threads share. Shared ownership (each rank's transport holds
// it) because any of them may be the last to go. Ranks read each other's memory only inside a
// ReadScope; a rank that leaves because of an abort first waits until no such scope is open, so
// that it cannot free what another is still reading. A rank that abandons a collective does the
// same; the others then wait, as for any rank that is late, until somebody aborts.
class ThreadGroup {
 public:
  // `members`: the ranks of this group as the links count them.
  ThreadGroup(std::shared_ptr<LinkEmulation> links, std::vector<int> members, bool spin);

  int size() const { return size_; }
  bool spins() const { return spin_; }  // as the group was made
  const std::vector<int>& node_of_rank() const { return nodes_; }
  std::shared_ptr<ThreadGroup> make_child(const std::vector<int>& ranks) const;

  // What a rank shows to the others during one collective.
  struct Published {
    const void* in = nullptr;
    void* out = nullptr;
    int64_t count = 0;
    const int64_t* parts = nullptr;      // sizes of the parts of `in`, of all-to-all
    std::shared_ptr<ThreadGroup> group;  // of the colour this rank leads, during split()
  };
  Published& published(int rank) { return published_[static_cast<size_t>(rank)]; }

  struct Waiter {
    int rank = 0;
    bool spin = false;
  };
  void barrier(Waiter waiter);
  void throw_if_aborted(Waiter waiter);

  // Order of arrival within one collective: join() takes the next place, who(place) waits until
  // somebody took it. Places are freed by the barrier that ends the collective. `round` counts such
  // collectives.
  void join(int rank);
  bool has_joined(int place, uint32_t round) const;
  int who(int place, uint32_t round, Waiter waiter);
  int64_t joined_ns(int place) const { return places_[static_cast<size_t>(place)].joined_ns; }

  // What a rank hands to one other in a step of an algorithm. Each word advances once a step.
  struct Slot {
    const void* data = nullptr;
    int64_t bytes = 0;
    int64_t posted_ns = 0;
    SignalWord posted, taken;
  };
  Slot& slot(int from, int to) { return slots_[pair(from, to)]; }
  void wait_for_step(const SignalWord& word, uint32_t step, Waiter waiter) {
    wait(word, SignalWord::after(step), waiter);
  }

  MessageChannel& channel(int from, int to) { return channels_[pair(from, to)]; }

  // When `bytes` would have come over the emulated link, and the wait for it; at once without one.
  bool emulates_links() const { return links_->active(); }
  int64_t arrival_ns(int from, int to, int64_t bytes, int64_t ready_ns);
  void wait_until(int64_t due_ns, Waiter waiter);

  void adopt(const std::shared_ptr<ThreadGroup>& child);  // an abort here reaches the child too
  void abort(const std::string& reason);
  void abandon(int rank);
  bool aborted() const { return SignalWord::aborted(epoch_.value()); }

  class ReadScope {
   public:
    ReadScope(ThreadGroup& group, Waiter waiter);
    ~ReadScope() { group_.readers_.fetch_sub(1); }
    ReadScope(const ReadScope&) = delete;
    ReadScope& operator=(const ReadScope&) = delete;

   private:
    ThreadGroup& group_;
  };

 private:
  struct Place {
    SignalWord word;
    std::atomic<int> rank{0};
    std::atomic<int64_t> joined_ns{0};
  };

  size_t pair(int from, int to) const {
    return static_cast<size_t>(from) * static_cast<size_t>(size_) + static_cast<size_t>(to);
  }
  template <typename Do>
  void for_each_word(const Do& act);

  // Until the count of `word` is no longer that of `old`.
  void wait(const SignalWord& word, uint32_t old, Waiter waiter);
  void wait_for_abort(Waiter waiter);
  [[noreturn]] void leave();

  const std::shared_ptr<LinkEmulation> links_;  // of all groups that come from one
  const std::vector<int> members_;
  const std::vector<int> nodes_;
  const int size_;
  const bool spin_;
  std::vector<Published> published_;
  std::vector<Place> places_;
  std::vector<Slot> slots_;
  std::vector<MessageChannel> channels_;
  std::vector<std::atomic<bool>> abandoned_;
  SignalWord epoch_;
  std::atomic<int> arrived_{0};
  std::atomic<uint32_t> joined_{0};
  std::atomic<int> readers_{0};
  std::mutex abort_mutex_;
  std::string abort_reason_;
  std::vector<std::weak_ptr<ThreadGroup>> children_;
};

}  // namespace dettax
