#include "harness/launch/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/device/cuda_presence.h"
#include "harness/launch/controls.h"
#include "harness/launch/rank_pool.h"
#include "harness/plan/crowding.h"

namespace dettax {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

int64_t kernel_available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word) {
    int64_t kib = 0;
    if (word == "MemAvailable:" && file >> kib) return kib * 1024;
  }
  return kUnlimited;
}

// The word "max" where there is no limit.
int64_t read_bytes(const std::string& path) {
  std::ifstream file(path);
  int64_t bytes = 0;
  return file >> bytes ? bytes : kUnlimited;
}

int64_t control_group_available_bytes() {
  const int64_t limit = read_bytes("/sys/fs/cgroup/memory.max");
  const int64_t used = read_bytes("/sys/fs/cgroup/memory.current");
  if (limit == kUnlimited || used == kUnlimited) return kUnlimited;
  return std::max<int64_t>(0, limit - used);
}

// Ops are timed by the host, which on a device only issues them.
std::optional<std::string> missing_profiler(const Case& planned, const Suite& suite) {
  if (planned.backend != Backend::cuda || (!suite.profile.arms && !suite.profile.ablate))
    return std::nullopt;
  return std::string("profile.") + (suite.profile.arms ? "arms" : "ablate") +
         ": backend cuda has no profiler yet; leave it out";
}

}  // namespace

std::optional<std::string> missing_backend(const Case& planned) {
  if (planned.backend != Backend::cuda) return std::nullopt;
  const std::string missing = find_cuda().missing;
  if (missing.empty()) return std::nullopt;
  return fmt::format("backend cuda is not available: {}; use backend: cpu", missing);
}

int64_t available_memory_bytes() {
  return std::min(kernel_available_bytes(), control_group_available_bytes());
}

Case on_its_node(const Case& planned, const Suite& suite) {
  return suite.launch.launcher == "threads" ? all_on_one_node(planned) : planned;
}

int64_t case_memory_bytes(const Case& planned, const Suite& suite) {
  const Case placed = on_its_node(planned, suite);
  int64_t total = 2 * estimate_memory(placed, suite.fast).total();  // fast and control
  for (const Mode& mode : suite.modes) total += estimate_memory(placed, mode).total();
  // One at a time is copied before it is written, each rank its part.
  const bool saves = suite.evidence.checkpoints() > 0 && control_mode(suite) != nullptr;
  return saves ? total + checkpoint_bytes(placed) / placed.topology.nodes : total;
}

std::optional<std::string> arm_refusal(const Case& planned, const Mode& mode,
                                       int64_t available_bytes) {
  if (auto reason = missing_backend(planned)) return reason;
  return refusal(planned, mode, available_bytes);
}

std::optional<std::string> case_refusal(const Case& planned, const Suite& suite,
                                        int64_t available_bytes) {
  if (auto reason = missing_backend(planned)) return reason;
  if (auto reason = missing_profiler(planned, suite)) return reason;
  const Case placed = on_its_node(planned, suite);
  if (auto reason = crowding(placed, available_cores())) return reason;
  if (auto reason = refusal(placed, suite.fast, available_bytes)) return reason;
  for (const Mode& mode : suite.modes) {
    if (auto reason = refusal(placed, mode, available_bytes)) return reason;
  }
  if (planned.backend != Backend::cpu) return std::nullopt;
  const int64_t needed = case_memory_bytes(planned, suite);
  if (needed <= available_bytes) return std::nullopt;
  return fmt::format(
      "its {} arms need {} together and {} are available; fewer modes, a smaller batch or a model "
      "of fewer layers would fit",
      suite.modes.size() + 2, format_bytes(static_cast<double>(needed)),
      format_bytes(static_cast<double>(available_bytes)));
}

}  // namespace dettax
