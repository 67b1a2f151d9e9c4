#include "harness/launch/machine.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/format.h"
#include "harness/base/text.h"
#include "harness/launch/descriptor.h"
#include "harness/plan/launch_plan.h"

namespace dettax {
namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using TopologyHandle = std::unique_ptr<hwloc_topology, TopologyDeleter>;

TopologyHandle load_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) throw_errno("hwloc cannot start");
  TopologyHandle handle(topology);
  if (hwloc_topology_load(topology) != 0) throw_errno("hwloc cannot read this machine's topology");
  return handle;
}

}  // namespace

Machine find_machine() {
  const TopologyHandle handle = load_topology();
  hwloc_topology_t topology = handle.get();
  // What this process may use: less than the topology where a launcher or a control group has bound
  // it.
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (::sched_getaffinity(0, sizeof usable, &usable) != 0) throw_errno("cannot read usable cores");
  Machine machine;
  machine.hardware_threads = CPU_COUNT(&usable);
  for (hwloc_obj_t core = nullptr;
       (core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr;) {
    for (int cpu = hwloc_bitmap_first(core->cpuset); cpu >= 0;
         cpu = hwloc_bitmap_next(core->cpuset, cpu)) {
      if (!CPU_ISSET(static_cast<size_t>(cpu), &usable)) continue;
      machine.cores.push_back(cpu);
      const int numa = core->nodeset == nullptr ? -1 : hwloc_bitmap_first(core->nodeset);
      machine.numa_nodes.push_back(std::max(0, numa));
      break;
    }
  }
  if (machine.cores.empty()) {  // a machine that does not tell its cores
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(static_cast<size_t>(cpu), &usable)) continue;
      machine.cores.push_back(cpu);
      machine.numa_nodes.push_back(0);
    }
  }
  const auto count = [&](hwloc_obj_type_t type) {
    return std::max(1, hwloc_get_nbobjs_by_type(topology, type));
  };
  machine.description =
      fmt::format("{}, {}, {}, {}", format_things(count(HWLOC_OBJ_PACKAGE), "package"),
                  format_things(count(HWLOC_OBJ_NUMANODE), "NUMA node"),
                  format_things(std::ssize(machine.cores), "usable core"),
                  format_things(machine.hardware_threads, "hardware thread"));
  return machine;
}

std::string node_name() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets any
  if (const char* node = std::getenv("SLURMD_NODENAME"); node != nullptr && *node != '\0') {
    return node;
  }
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) throw_errno("cannot read the host's name");
  return name.data();
}

std::string machine_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string identity;
  std::getline(file, identity);
  return identity.empty() ? node_name() : identity;
}

int visible_devices() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets any
  if (const char* named = std::getenv("CUDA_VISIBLE_DEVICES"); named != nullptr) {
    const std::string list(trim(named));
    if (list.empty() || list == "-1" || list == "NoDevFiles") return 0;
    return static_cast<int>(split(list, ',').size());
  }
  int count = 0;
  while (std::filesystem::exists(fmt::format("/dev/nvidia{}", count))) ++count;
  return count;
}

const std::string& binding_word(Binding binding) {
  return binding_words().at(static_cast<size_t>(binding));
}

Binding find_binding(const std::string& word) {
  const std::vector<std::string>& words = binding_words();
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end())
    throw Error(ErrorKind::usage,
                fmt::format("binding \"{}\": must be {}", word, join(words, " or ")));
  return static_cast<Binding>(found - words.begin());
}

std::vector<int> cores_of_rank(Binding binding, const std::vector<int>& cores, int local_rank,
                               int local_size, int threads) {
  if (binding == Binding::none) return {};
  const int needed = local_size * threads;
  if (static_cast<size_t>(needed) > cores.size()) {
    throw Error(ErrorKind::config,
                fmt::format("binding {}: {} ranks x {} threads on one machine need {} cores, found "
                            "{}; use binding: none",
                            binding_word(binding), local_size, threads, needed, cores.size()));
  }
  const auto first = cores.begin() + static_cast<std::ptrdiff_t>(local_rank) * threads;
  return {first, first + threads};
}

void bind_this_thread(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<size_t>(core), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) {
    throw_errno("cannot bind a thread to the cores " + core_list(cores));
  }
}

std::string core_list(const std::vector<int>& cores) {
  std::vector<int> sorted = cores;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> parts;
  for (size_t i = 0; i < sorted.size();) {
    size_t last = i;
    while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) ++last;
    parts.push_back(last == i ? fmt::format("{}", sorted[i])
                              : fmt::format("{}-{}", sorted[i], sorted[last]));
    i = last + 1;
  }
  return join(parts, ",");
}

}  // namespace dettax
