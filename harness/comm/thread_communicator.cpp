#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/error.h"
#include "harness/comm/communicator.h"
#include "harness/comm/group_communicator.h"
#include "harness/comm/reordering.h"
#include "harness/comm/thread_transport.h"

namespace dettax {

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int ranks, bool spin,
                                                                     bool reorder) {
  if (ranks < 1)
    throw Error(ErrorKind::internal,
                "a group needs at least one rank, not " + std::to_string(ranks));
  const auto group = std::make_shared<ThreadGroup>(ranks, spin);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int r = 0; r < ranks; ++r) {
    auto transport = make_thread_transport(group, r);
    if (reorder) transport = make_reordering_transport(std::move(transport));
    communicators.push_back(make_group_communicator(std::move(transport)));
  }
  return communicators;
}

}  // namespace dettax
