#include "harness/comm/message_channel.h"

#include <cstring>
#include <utility>

#include <hwy/cache_control.h>

#include "harness/base/error.h"
#include "harness/comm/signal_word.h"

namespace dettax {

void MessageChannel::throw_if_aborted() const {
  if (aborted_) throw Error(ErrorKind::infrastructure, abort_reason_);
}

// Copies under the lock: nobody but the two ends ever takes it.
void MessageChannel::match() {
  while (!sends_.empty() && !receives_.empty()) {
    const Send& send = sends_.front();
    Message& receive = *receives_.front();
    const void* source = send.message != nullptr ? send.message->source : send.kept.data();
    const int64_t bytes =
        send.message != nullptr ? send.message->bytes : static_cast<int64_t>(send.kept.size());
    if (bytes == receive.bytes) {
      if (bytes > 0) std::memcpy(receive.target, source, static_cast<size_t>(bytes));
    } else {
      receive.fault =
          std::to_string(receive.bytes) + " bytes asked for, " + std::to_string(bytes) + " sent";
    }
    receive.finished = true;
    if (send.message != nullptr) send.message->finished = true;
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
    sends_.push_back({nullptr, std::vector<char>(begin, begin + bytes)});
    return;
  }
  Message message{data, nullptr, bytes, false, {}};
  sends_.push_back({&message, {}});
  match();
  changed_.wait(lock, [&] { return message.finished || aborted_; });
  if (message.finished) return;
  std::erase_if(sends_, [&](const Send& send) { return send.message == &message; });
  throw_if_aborted();
}

void MessageChannel::post_send(Message& message) {
  const std::lock_guard lock(mutex_);
  throw_if_aborted();
  sends_.push_back({&message, {}});
  match();
}

void MessageChannel::post_receive(Message& message) {
  const std::lock_guard lock(mutex_);
  throw_if_aborted();
  receives_.push_back(&message);
  match();
}

void MessageChannel::wait(const Message& message, bool spin) {
  for (int i = 0; spin && i < kSpins && !finished(message); ++i) hwy::Pause();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return message.finished || aborted_; });
  if (!message.finished) throw_if_aborted();
}

bool MessageChannel::finished(const Message& message) {
  const std::lock_guard lock(mutex_);
  return message.finished || aborted_;
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
