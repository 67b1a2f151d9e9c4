#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/launch/job.h"
#include "harness/launch/launch_command.h"
#include "harness/launch/launcher.h"

namespace dettax {

// How ranks become processes, on which hosts.
struct ProcessSettings {
  RankStarter starter = RankStarter::mpirun;
  Job job;
  std::vector<std::string> arguments;  // further ones of mpirun or srun
  std::string control_address;         // of this host, as the others reach it; empty: found out
};

// One process a rank, started group by group with mpirun or srun; the case's topology says how many
// a node. Error where the job's nodes are not those that the case expects.
std::unique_ptr<Launcher> make_process_launcher(LaunchSettings settings,
                                                ProcessSettings process_settings);

}  // namespace dettax
