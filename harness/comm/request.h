#pragma once

#include <memory>
#include <utility>

namespace dettax {

// An operation that was started and may still run. Its buffers belong to it until wait() has
// returned. Waits on the thread that started it; the communicator must outlive it. A request that
// is destroyed before it has finished, as when an exception passes through its owner, lets go of
// its buffers first: the operation is given up on this rank, and the others learn of it by
// abort(), as of any other rank that fails.
class Request {
 public:
  class Operation {
   public:
    virtual ~Operation() = default;
    virtual void wait() = 0;  // throws what the operation threw
    virtual bool done() = 0;  // wait() would not block
  };

  Request() = default;  // has finished
  explicit Request(std::unique_ptr<Operation> operation) : operation_(std::move(operation)) {}

  void wait() {
    if (const auto operation = std::move(operation_)) operation->wait();
  }
  bool done() const { return operation_ == nullptr || operation_->done(); }

 private:
  std::unique_ptr<Operation> operation_;
};

}  // namespace dettax
