#pragma once

#include <memory>

#include "harness/comm/communicator.h"
#include "harness/comm/transport.h"

namespace dettax {

// The communicator over any transport: algorithms, order of execution, statistics.
std::unique_ptr<Communicator> make_group_communicator(std::unique_ptr<Transport> transport,
                                                      const CollectiveSettings& settings);

}  // namespace dettax
