#include "harness/plan/crowding.h"

#include <fmt/format.h>

#include "harness/base/format.h"

namespace dettax {
namespace {

// Beyond it little but waiting would be measured.
constexpr int64_t kMostThreadsPerCore = 64;

int64_t threads_of_node(const Case& planned) {
  return int64_t{planned.topology.ranks_per_node} * planned.topology.threads_per_rank;
}

std::string threads_on_cores(const Case& planned, int64_t cores) {
  return fmt::format("{} of {} on {}", format_things(planned.topology.ranks_per_node, "rank"),
                     format_things(planned.topology.threads_per_rank, "thread"),
                     format_things(cores, "core"));
}

}  // namespace

Case all_on_one_node(Case planned) {
  planned.topology.nodes = 1;
  planned.topology.ranks_per_node = planned.layout.ranks();
  return planned;
}

std::string oversubscription(const Case& planned, int64_t cores) {
  if (threads_of_node(planned) <= cores) return "";
  return threads_on_cores(planned, cores) + ": step times include waiting for a core";
}

std::optional<std::string> crowding(const Case& planned, int64_t cores) {
  const int64_t most = kMostThreadsPerCore * cores;
  if (threads_of_node(planned) <= most) return std::nullopt;
  return fmt::format("{} would hardly get anywhere; at most {} threads in all are run here",
                     threads_on_cores(planned, cores), most);
}

}  // namespace dettax
