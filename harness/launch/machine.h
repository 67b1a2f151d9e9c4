#pragma once

#include <string>
#include <vector>

namespace dettax {

// What a process may use of the machine it is on, as hwloc finds it. Taken before anything is bound.
struct Machine {
  std::vector<int> cores;       // first usable hardware thread of each core, neighbours together
  std::vector<int> numa_nodes;  // [core]
  int hardware_threads = 1;     // usable
  std::string description;      // "1 package, 1 NUMA node, 2 cores, 2 hardware threads"
};
Machine find_machine();

// The name this host has in its job: of Slurm's node, where several may share one host name, else the
// host's own.
std::string node_name();

// The same on every host that is really one machine; differs between machines.
std::string machine_identity();

// Accelerators this process can see, by CUDA_VISIBLE_DEVICES and the driver's files.
int visible_devices();

// How compute threads are tied to cores.
enum class Binding {
  none,  // where the system puts them
  core,  // each thread has a core of its own
};
const std::string& binding_word(Binding binding);
// Error{usage} for another word than none or core.
Binding find_binding(const std::string& word);

// Cores of the threads of a rank, the `local_rank`-th of `local_size` on its machine; empty for
// Binding::none. Error{config} with both numbers where cores are too few.
std::vector<int> cores_of_rank(Binding binding, const std::vector<int>& cores, int local_rank,
                               int local_size, int threads);

// Ties the calling thread to these cores. Error{infrastructure} if the system refuses.
void bind_this_thread(const std::vector<int>& cores);

// "0-3,8" of {0, 1, 2, 3, 8}.
std::string core_list(const std::vector<int>& cores);

}  // namespace dettax
