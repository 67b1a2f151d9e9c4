#include "harness/comm/thread_group.h"

#include <thread>

#include "harness/base/error.h"

namespace dettax {

ThreadGroup::ThreadGroup(int size, bool spin)
    : size_(size),
      spin_(spin),
      published_(static_cast<size_t>(size)),
      places_(static_cast<size_t>(size)),
      channels_(static_cast<size_t>(size) * static_cast<size_t>(size)),
      abandoned_(static_cast<size_t>(size)) {}

void ThreadGroup::barrier(Waiter waiter) {
  const uint32_t old = epoch_.value();
  if (SignalWord::aborted(old) || abandoned_[static_cast<size_t>(waiter.rank)]) leave();
  if (arrived_.fetch_add(1) + 1 == size_) {
    arrived_.store(0);
    epoch_.advance();
    return;
  }
  wait(epoch_, old, waiter);
}

void ThreadGroup::wait(const SignalWord& word, uint32_t old, Waiter waiter) {
  for (uint32_t now = old;;) {
    if (SignalWord::aborted(now) || abandoned_[static_cast<size_t>(waiter.rank)]) leave();
    if (!SignalWord::same_count(now, old)) return;
    now = word.wait_while(now, waiter.spin);
  }
}

void ThreadGroup::throw_if_aborted(Waiter waiter) {
  if (aborted() || abandoned_[static_cast<size_t>(waiter.rank)]) leave();
}

void ThreadGroup::wait_for_abort(Waiter waiter) {
  for (uint32_t now = epoch_.value();; now = epoch_.wait_while(now, waiter.spin))
    throw_if_aborted(waiter);
}

void ThreadGroup::leave() {
  while (readers_.load() != 0) std::this_thread::yield();
  const std::lock_guard lock(abort_mutex_);
  throw Error(ErrorKind::infrastructure,
              abort_reason_.empty() ? "left in the middle of a collective" : abort_reason_);
}

void ThreadGroup::join(int rank) {
  Place& place = places_[joined_.fetch_add(1) % static_cast<uint32_t>(size_)];
  place.rank.store(rank);
  place.word.advance();
}

// Each place is taken once a round, so its word has advanced round + 1 times when it is taken in
// this one.
bool ThreadGroup::has_joined(int place, uint32_t round) const {
  return !SignalWord::same_count(places_[static_cast<size_t>(place)].word.value(),
                                 SignalWord::after(round));
}

int ThreadGroup::who(int place, uint32_t round, Waiter waiter) {
  Place& taken = places_[static_cast<size_t>(place)];
  wait(taken.word, SignalWord::after(round), waiter);
  return taken.rank.load();
}

void ThreadGroup::adopt(const std::shared_ptr<ThreadGroup>& child) {
  const std::lock_guard lock(abort_mutex_);
  std::erase_if(children_, [](const auto& old) { return old.expired(); });
  children_.push_back(child);
  if (aborted()) child->abort(abort_reason_);
}

void ThreadGroup::abort(const std::string& reason) {
  std::vector<std::shared_ptr<ThreadGroup>> children;
  {
    const std::lock_guard lock(abort_mutex_);
    if (aborted()) return;
    abort_reason_ = reason;
    epoch_.abort();
    for (Place& place : places_) place.word.abort();
    for (MessageChannel& channel : channels_) channel.abort(reason);
    for (const auto& child : children_) {
      if (auto alive = child.lock()) children.push_back(std::move(alive));
    }
  }
  for (const auto& child : children) child->abort(reason);
}

void ThreadGroup::abandon(int rank) {
  abandoned_[static_cast<size_t>(rank)] = true;
  epoch_.disturb();
  for (Place& place : places_) place.word.disturb();
}

ThreadGroup::ReadScope::ReadScope(ThreadGroup& group, Waiter waiter) : group_(group) {
  group_.readers_.fetch_add(1);
  const uint32_t now = group_.epoch_.value();
  if (!SignalWord::aborted(now) && !SignalWord::disturbed(now)) return;
  group_.readers_.fetch_sub(1);
  group_.wait_for_abort(waiter);
}

}  // namespace dettax
