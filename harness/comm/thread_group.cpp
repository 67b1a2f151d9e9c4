#include "harness/comm/thread_group.h"

#include <thread>

#include "harness/base/error.h"

namespace dettax {

ThreadGroup::ThreadGroup(int size, bool spin)
    : size_(size),
      spin_(spin),
      published_(static_cast<size_t>(size)),
      places_(static_cast<size_t>(size)),
      mailboxes_(static_cast<size_t>(size) * static_cast<size_t>(size)) {}

void ThreadGroup::barrier() {
  const uint32_t old = epoch_.value();
  if (SignalWord::aborted(old)) leave();
  if (arrived_.fetch_add(1) + 1 == size_) {
    arrived_.store(0);
    epoch_.advance();
    return;
  }
  wait(epoch_, old);
}

void ThreadGroup::wait(const SignalWord& word, uint32_t old) {
  const uint32_t now = SignalWord::aborted(old) ? old : word.wait_while(old, spin_);
  if (SignalWord::aborted(now)) leave();
}

void ThreadGroup::throw_if_aborted() {
  if (SignalWord::aborted(epoch_.value())) leave();
}

void ThreadGroup::leave() {
  while (readers_.load() != 0) std::this_thread::yield();
  const std::lock_guard lock(abort_mutex_);
  throw Error(ErrorKind::infrastructure, abort_reason_);
}

void ThreadGroup::join(int rank) {
  Place& place = places_[joined_.fetch_add(1) % static_cast<uint32_t>(size_)];
  place.rank.store(rank);
  place.word.advance();
}

// Each place is taken once a round, so its word has advanced round + 1 times when it is taken in
// this one.
bool ThreadGroup::has_joined(int place, uint32_t round) const {
  return places_[static_cast<size_t>(place)].word.value() >> 1U != (round & 0x7FFFFFFFU);
}

int ThreadGroup::who(int place, uint32_t round) {
  Place& taken = places_[static_cast<size_t>(place)];
  wait(taken.word, round << 1U);
  return taken.rank.load();
}

void ThreadGroup::adopt(const std::shared_ptr<ThreadGroup>& child) {
  const std::lock_guard lock(abort_mutex_);
  std::erase_if(children_, [](const auto& old) { return old.expired(); });
  children_.push_back(child);
  if (SignalWord::aborted(epoch_.value())) child->abort(abort_reason_);
}

void ThreadGroup::abort(const std::string& reason) {
  std::vector<std::shared_ptr<ThreadGroup>> children;
  {
    const std::lock_guard lock(abort_mutex_);
    if (SignalWord::aborted(epoch_.value())) return;
    abort_reason_ = reason;
    epoch_.abort();
    for (Place& place : places_) place.word.abort();
    for (Mailbox& mailbox : mailboxes_) mailbox.word.abort();
    for (const auto& child : children_) {
      if (auto alive = child.lock()) children.push_back(std::move(alive));
    }
  }
  for (const auto& child : children) child->abort(reason);
}

ThreadGroup::ReadScope::ReadScope(ThreadGroup& group) : group_(group) {
  group_.readers_.fetch_add(1);
  if (!SignalWord::aborted(group_.epoch_.value())) return;
  group_.readers_.fetch_sub(1);
  group_.leave();
}

}  // namespace dettax
