#pragma once

#include <memory>

#include "harness/comm/thread_group.h"
#include "harness/comm/transport.h"

namespace dettax {

std::unique_ptr<Transport> make_thread_transport(std::shared_ptr<ThreadGroup> group, int rank);

}  // namespace dettax
