#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/error.h"
#include "harness/comm/communicator.h"
#include "harness/comm/group_communicator.h"
#include "harness/comm/thread_transport.h"

namespace dettax {

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(
    int ranks, bool spin, const CollectiveSettings& settings) {
  if (ranks < 1)
    throw Error(ErrorKind::internal,
                "a group needs at least one rank, not " + std::to_string(ranks));
  require_valid(settings, ranks);
  std::vector<int> members(static_cast<size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  const auto group = std::make_shared<ThreadGroup>(std::make_shared<LinkEmulation>(settings, ranks),
                                                   std::move(members), spin);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int r = 0; r < ranks; ++r)
    communicators.push_back(make_group_communicator(make_thread_transport(group, r), settings));
  return communicators;
}

}  // namespace dettax
