#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "harness/base/error.h"
#include "harness/comm/communicator.h"

namespace dettax {
namespace {

// The first failure of a group; what the others then throw because they were aborted is no news.
class FirstFailure {
 public:
  void set(int rank, ErrorKind kind, const std::string& message) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_.emplace(kind, "rank " + std::to_string(rank) + ": " + message);
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  std::mutex mutex_;
  std::optional<Error> error_;
};

void run_rank(Communicator& communicator, const std::function<void(Communicator&)>& body,
              FirstFailure& failure) {
  try {
    body(communicator);
    return;
  } catch (const Error& error) {
    failure.set(communicator.rank(), error.kind(), error.what());
  } catch (const std::exception& error) {
    failure.set(communicator.rank(), ErrorKind::internal, error.what());
  }
  communicator.abort(failure.error()->what());
}

}  // namespace

void run_ranks(int ranks, bool spin, const std::function<void(Communicator&)>& body) {
  run_ranks(ranks, spin, {}, body);
}

void run_ranks(int ranks, bool spin, const CollectiveSettings& settings,
               const std::function<void(Communicator&)>& body) {
  const auto communicators = make_thread_communicators(ranks, spin, settings);
  FirstFailure failure;
  {
    std::vector<std::jthread> threads;
    threads.reserve(communicators.size());
    for (const auto& communicator : communicators) {
      threads.emplace_back(
          [&body, &failure, &communicator] { run_rank(*communicator, body, failure); });
    }
  }
  if (const auto& error = failure.error()) throw Error(*error);
}

}  // namespace dettax
