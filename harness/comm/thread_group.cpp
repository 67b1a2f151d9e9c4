#include "harness/comm/thread_group.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "harness/base/error.h"

namespace dettax {

namespace {

std::vector<int> nodes_of(const LinkEmulation& links, const std::vector<int>& members) {
  std::vector<int> nodes;
  for (const int member : members)
    nodes.push_back(links.node_of_rank()[static_cast<size_t>(member)]);
  return nodes;
}

}  // namespace

ThreadGroup::ThreadGroup(std::shared_ptr<LinkEmulation> links, std::vector<int> members, bool spin)
    : links_(std::move(links)),
      members_(std::move(members)),
      nodes_(nodes_of(*links_, members_)),
      size_(static_cast<int>(members_.size())),
      spin_(spin),
      published_(members_.size()),
      places_(members_.size()),
      slots_(members_.size() * members_.size()),
      channels_(members_.size() * members_.size()),
      abandoned_(members_.size()) {
  for (int from = 0; from < size_; ++from) {
    for (int to = 0; to < size_; ++to)
      channel(from, to).connect(*links_, members_[static_cast<size_t>(from)],
                                members_[static_cast<size_t>(to)]);
  }
}

std::shared_ptr<ThreadGroup> ThreadGroup::make_child(const std::vector<int>& ranks) const {
  std::vector<int> members;
  for (const int rank : ranks) members.push_back(members_[static_cast<size_t>(rank)]);
  return std::make_shared<ThreadGroup>(links_, std::move(members), spin_);
}

template <typename Do>
void ThreadGroup::for_each_word(const Do& act) {
  act(epoch_);
  for (Place& place : places_) act(place.word);
  for (Slot& slot : slots_) {
    act(slot.posted);
    act(slot.taken);
  }
}

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
  if (emulates_links()) place.joined_ns = steady_now_ns();
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

int64_t ThreadGroup::arrival_ns(int from, int to, int64_t bytes, int64_t ready_ns) {
  if (!emulates_links()) return 0;
  return links_->arrival_ns(members_[static_cast<size_t>(from)], members_[static_cast<size_t>(to)],
                            bytes, ready_ns);
}

// In slices: an abort must not wait for a slow link.
void ThreadGroup::wait_until(int64_t due_ns, Waiter waiter) {
  constexpr int64_t kSliceNs = 5'000'000;
  for (int64_t now = 0; due_ns > 0 && (now = steady_now_ns()) < due_ns;) {
    throw_if_aborted(waiter);
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(kSliceNs, due_ns - now)));
  }
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
    for_each_word([](SignalWord& word) { word.abort(); });
    for (MessageChannel& channel : channels_) channel.abort(reason);
    for (const auto& child : children_) {
      if (auto alive = child.lock()) children.push_back(std::move(alive));
    }
  }
  for (const auto& child : children) child->abort(reason);
}

void ThreadGroup::abandon(int rank) {
  if (abandoned_[static_cast<size_t>(rank)].exchange(true)) return;
  for_each_word([](SignalWord& word) { word.disturb(); });
}

ThreadGroup::ReadScope::ReadScope(ThreadGroup& group, Waiter waiter) : group_(group) {
  group_.readers_.fetch_add(1);
  const uint32_t now = group_.epoch_.value();
  if (!SignalWord::aborted(now) && !SignalWord::disturbed(now)) return;
  group_.readers_.fetch_sub(1);
  group_.wait_for_abort(waiter);
}

}  // namespace dettax
