#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "harness/comm/link_emulation.h"

namespace dettax {

// One end of a message on its way: a send or a receive that was posted.
struct Message {
  const void* source = nullptr;  // of a send
  void* target = nullptr;        // of a receive
  int64_t bytes = 0;
  int64_t posted_ns = 0;
  bool finished = false;
  int64_t due_ns = 0;  // when it is through, over an emulated link
  std::string fault;   // why it could not be received
};

// Messages from one rank to another of the same address space, received in the order in which they
// were sent. Whoever comes second, sender or receiver, copies; so neither start needs a thread that
// goes on behind the caller's back.
class MessageChannel {
 public:
  void connect(LinkEmulation& links, int from, int to);  // ranks as the links count them

  void send(const void* data, int64_t bytes);  // keeps a copy if nobody receives yet
  void post_send(Message& message);
  void post_receive(Message& message);
  void wait(const Message& message, bool spin);
  bool finished(const Message& message);
  void withdraw(Message& message);  // is not, and will not be, copied from or to
  void abort(const std::string& reason);

 private:
  struct Send {
    Message* message = nullptr;  // none: `kept` holds its content
    std::vector<char> kept;
    int64_t posted_ns = 0;
  };

  void throw_if_aborted() const;
  void match();
  void receive_from(const Send& send, Message& receive);

  LinkEmulation* links_ = nullptr;
  int from_ = 0;
  int to_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Send> sends_;
  std::deque<Message*> receives_;
  bool aborted_ = false;
  std::string abort_reason_;
};

}  // namespace dettax
