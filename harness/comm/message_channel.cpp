#include "harness/comm/message_channel.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <hwy/cache_control.h>

#include "harness/base/error.h"
#include "harness/comm/signal_word.h"

namespace dettax {

void MessageChannel::throw_if_aborted() const {
  if (aborted_) throw Error(ErrorKind::infrastructure, abort_reason_);
}

void MessageChannel::connect(LinkEmulation& links, int from, int to) {
  links_ = &links;
  from_ = from;
  to_ = to;
}

void MessageChannel::receive_from(const Send& send, Message& receive) {
  const void* source = send.message != nullptr ? send.message->source : send.kept.data();
  const int64_t bytes =
      send.message != nullptr ? send.message->bytes : static_cast<int64_t>(send.kept.size());
  if (bytes != receive.bytes) {
    receive.fault =
        std::to_string(receive.bytes) + " bytes asked for, " + std::to_string(bytes) + " sent";
  } else if (bytes > 0) {
    std::memcpy(receive.target, source, static_cast<size_t>(bytes));
  }
  if (links_->active())
    receive.due_ns =
        links_->arrival_ns(from_, to_, bytes, std::max(send.posted_ns, receive.posted_ns));
}

// Copies under the lock: nobody but the two ends ever takes it.
void MessageChannel::match() {
  while (!sends_.empty() && !receives_.empty()) {
    const Send& send = sends_.front();
    Message& receive = *receives_.front();
    receive_from(send, receive);
    receive.finished = true;
    if (send.message != nullptr) {
      send.message->due_ns = receive.due_ns;
      send.message->finished = true;
    }
    receives_.pop_front();
    sends_.pop_front();
    changed_.notify_all();
  }
}

void MessageChannel::send(const void* data, int64_t bytes) {
  std::unique_lock lock(mutex_);
  throw_if_aborted();
  if (receives_.empty() && sends_.empty()) {
    const char* begin = static_cast<const char*>(data);
    sends_.push_back({nullptr, std::vector<char>(begin, begin + bytes), steady_now_ns()});
    return;
  }
  Message message;
  message.source = data;
  message.bytes = bytes;
  sends_.push_back({&message, {}, steady_now_ns()});
  match();
  changed_.wait(lock, [&] { return message.finished || aborted_; });
  if (message.finished) return;
  std::erase_if(sends_, [&](const Send& send) { return send.message == &message; });
  throw_if_aborted();
}

void MessageChannel::post_send(Message& message) {
  const std::lock_guard lock(mutex_);
  throw_if_aborted();
  message.posted_ns = steady_now_ns();
  sends_.push_back({&message, {}, message.posted_ns});
  match();
}

void MessageChannel::post_receive(Message& message) {
  const std::lock_guard lock(mutex_);
  throw_if_aborted();
  message.posted_ns = steady_now_ns();
  receives_.push_back(&message);
  match();
}

void MessageChannel::wait(const Message& message, bool spin) {
  for (int i = 0; spin && i < kSpins && !finished(message); ++i) hwy::Pause();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return message.finished || aborted_; });
  if (!message.finished) throw_if_aborted();
  while (!aborted_ && steady_now_ns() < message.due_ns)
    changed_.wait_for(lock, std::chrono::nanoseconds(message.due_ns - steady_now_ns()));
}

bool MessageChannel::finished(const Message& message) {
  const std::lock_guard lock(mutex_);
  return (message.finished && steady_now_ns() >= message.due_ns) || aborted_;
}

void MessageChannel::withdraw(Message& message) {
  const std::lock_guard lock(mutex_);
  std::erase_if(sends_, [&](const Send& send) { return send.message == &message; });
  std::erase(receives_, &message);
}

void MessageChannel::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (aborted_) return;
  aborted_ = true;
  abort_reason_ = reason;
  changed_.notify_all();
}

}  // namespace dettax
