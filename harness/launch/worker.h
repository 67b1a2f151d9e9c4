#pragma once

#include "harness/launch/channel.h"
#include "harness/launch/status_page.h"

namespace dettax {

// Descriptors a worker process finds: its end of the channel, and its status page.
inline constexpr int kWorkerSocket = 3;
inline constexpr int kWorkerStatus = 4;

// Serves requests until the launcher says exit or is gone. Between requests every thread sleeps.
void run_worker(Channel channel, StatusPage page);

}  // namespace dettax
