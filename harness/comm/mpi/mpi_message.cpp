#include <utility>

#include "harness/base/error.h"
#include "harness/comm/mpi/mpi_transport.h"

namespace dettax {

// A message from start_send or start_receive.
class MpiTransport::Message : public Request::Operation {
 public:
  Message(MpiTransport& transport, const void* data, int64_t bytes, int to)
      : transport_(transport), bytes_(bytes), mover_(transport.job_.mover()) {
    transport.job_.throw_if_aborted();
    requests_.send(data, bytes, to, kMessage, transport.comm_);
    if (transport.links_.active()) {
      due_ns_ = transport.due_ns(to, bytes);
      requests_.send(&due_ns_, sizeof(due_ns_), to, kMessageStamp, transport.comm_);
    }
    mover_.add(1);
  }
  Message(MpiTransport& transport, void* data, int64_t bytes, int from, std::string who)
      : transport_(transport), bytes_(bytes), mover_(transport.job_.mover()), who_(std::move(who)) {
    transport.job_.throw_if_aborted();
    requests_.receive(data, bytes, from, kMessage, transport.comm_);
    if (transport.links_.active())
      requests_.receive(&due_ns_, sizeof(due_ns_), from, kMessageStamp, transport.comm_);
    mover_.add(1);
  }
  ~Message() override { mover_.add(-1); }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  void wait() override {
    transport_.wait_for_message(requests_);
    if (const int64_t missing = requests_.missing_bytes(); missing != 0)
      throw Error(ErrorKind::internal, who_ + std::to_string(bytes_) + " bytes asked for, " +
                                           std::to_string(bytes_ - missing) + " sent");
    sleep_until(due_ns_, transport_.job_);
  }
  bool done() override {
    return (requests_.done() && steady_now_ns() >= due_ns_) || transport_.job_.aborted();
  }

 private:
  MpiTransport& transport_;
  const int64_t bytes_;
  Mover& mover_;
  const std::string who_;
  int64_t due_ns_ = 0;
  Requests requests_;
};

std::unique_ptr<Request::Operation> MpiTransport::start_send(const void* data, int64_t bytes,
                                                             int to) {
  return std::make_unique<Message>(*this, data, bytes, to);
}

std::unique_ptr<Request::Operation> MpiTransport::start_receive(void* data, int64_t bytes,
                                                                int from) {
  return std::make_unique<Message>(
      *this, data, bytes, from,
      "rank " + std::to_string(rank_) + " receives from rank " + std::to_string(from) + ": ");
}

void MpiTransport::send(const void* data, int64_t bytes, int to) {
  job_.throw_if_aborted();
  auto& kept = kept_[to];
  if (kept) wait_for_message(kept->requests);
  kept = std::make_unique<Kept>();
  const char* begin = static_cast<const char*>(data);
  kept->content.assign(begin, begin + bytes);
  kept->requests.send(kept->content.data(), bytes, to, kMessage, comm_);
  if (!links_.active()) return;
  kept->due_ns = due_ns(to, bytes);
  kept->requests.send(&kept->due_ns, sizeof(kept->due_ns), to, kMessageStamp, comm_);
}

}  // namespace dettax
