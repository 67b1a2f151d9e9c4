#pragma once

#include <string>
#include <vector>

#include "harness/plan/yaml.h"

namespace dettax {

// How a suite's ranks are started and where they sit: the key `launch` of a suite, or flags.
struct LaunchPlan {
  std::string launcher = "threads";    // threads | mpirun | srun
  std::string hostfile;                // mpirun: "host slots=N" a line
  std::string nodelist, exclude;       // node lists as Slurm writes them; empty: all of the job
  std::vector<std::string> arguments;  // further ones of mpirun or srun
  std::string binding = "none";        // none | core: of compute threads
  std::string control_address;         // of this host, as the others reach it; empty: found out
  friend bool operator==(const LaunchPlan&, const LaunchPlan&) = default;
};

const std::vector<std::string>& launcher_words();
const std::vector<std::string>& binding_words();

LaunchPlan read_launch(const Yaml& node, const std::string& key);
Yaml launch_yaml(const LaunchPlan& launch);

}  // namespace dettax
