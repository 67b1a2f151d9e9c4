#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "harness/comm/signal_word.h"

namespace dettax {

// A message from one rank to another: room for one that was sent and not yet received.
struct Mailbox {
  SignalWord word;  // advanced when filled and when emptied
  static bool filled(uint32_t word) { return (word & 2U) != 0; }
  std::vector<char> content;
};

// What the ranks of one group over threads share. Shared ownership (each rank's communicator holds
// it) because any of them may be the last to go. Ranks read each other's memory only inside a
// ReadScope; a rank that leaves because of an abort first waits until no such scope is open, so
// that it cannot free what another is still reading.
class ThreadGroup {
 public:
  ThreadGroup(int size, bool spin);

  int size() const { return size_; }
  bool spins() const { return spin_; }

  // What a rank shows to the others during one collective.
  struct Published {
    const void* in = nullptr;
    void* out = nullptr;
    int64_t count = 0;
    std::shared_ptr<ThreadGroup> group;  // of the colour this rank leads, during split()
  };
  Published& published(int rank) { return published_[static_cast<size_t>(rank)]; }

  void barrier();
  void wait(const SignalWord& word, uint32_t old);  // until the word differs from old
  void throw_if_aborted();

  // Order of arrival within one collective: join() takes the next place, who(place) waits until
  // somebody took it. Places are freed by the barrier that ends the collective. `round` counts such
  // collectives.
  void join(int rank);
  bool has_joined(int place, uint32_t round) const;
  int who(int place, uint32_t round);

  Mailbox& mailbox(int from, int to) { return mailboxes_[static_cast<size_t>(from * size_ + to)]; }

  void adopt(const std::shared_ptr<ThreadGroup>& child);  // an abort here reaches the child too
  void abort(const std::string& reason);

  class ReadScope {
   public:
    explicit ReadScope(ThreadGroup& group);
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
  };

  [[noreturn]] void leave();

  const int size_;
  const bool spin_;
  std::vector<Published> published_;
  std::vector<Place> places_;
  std::vector<Mailbox> mailboxes_;
  SignalWord epoch_;
  std::atomic<int> arrived_{0};
  std::atomic<uint32_t> joined_{0};
  std::atomic<int> readers_{0};
  std::mutex abort_mutex_;
  std::string abort_reason_;
  std::vector<std::weak_ptr<ThreadGroup>> children_;
};

}  // namespace dettax
