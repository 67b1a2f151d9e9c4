#pragma once

#include <memory>

#include "harness/launch/channel.h"
#include "harness/launch/protocol.h"
#include "harness/launch/rank_pool.h"
#include "harness/launch/status_page.h"

namespace dettax {

// Descriptors a worker process finds: its end of the channel, and its status page.
inline constexpr int kWorkerSocket = 3;
inline constexpr int kWorkerStatus = 4;

// Does what a launcher asks of the ranks of this process. The page must outlive it.
class RequestHandler {
 public:
  RequestHandler(StatusPage& page, PoolSettings settings);
  ~RequestHandler();
  // Whatever is thrown meanwhile becomes a reply that is not ok.
  Reply answer(const WorkerRequest& request);

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

// Serves requests until the launcher says exit or is gone. Between requests every thread sleeps.
void run_worker(Channel channel, StatusPage page, const PoolSettings& settings = {});

}  // namespace dettax
