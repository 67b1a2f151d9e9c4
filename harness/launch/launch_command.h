#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/launch/job.h"
#include "harness/launch/process.h"
#include "harness/plan/case.h"

namespace dettax {

// What starts the ranks of a group as processes of their own.
enum class RankStarter { mpirun, srun };
const char* to_string(RankStarter starter);

// How one group is to be started.
struct GroupPlan {
  Topology topology;
  std::vector<std::string> hosts;  // as many as the topology has nodes
  bool dealt = false;              // ranks go to the hosts in turn, else host by host
  int cores_per_host = 0;          // that the ranks may use; 0: not known
  std::string program;             // the same path on every host
  std::vector<std::string> worker_arguments;
  std::map<std::string, std::string> environment;  // of the ranks, beside what they inherit
  std::vector<std::string> extra_arguments;        // of mpirun or srun, behind ours: theirs win
};

// The command; `output` is left to the caller. Error{config} in one line where the starter is not
// installed or refuses to work here, which would otherwise show only as ranks that never come.
ProcessSpec rank_command(RankStarter starter, const GroupPlan& plan,
                         const VariableLookup& variable);

// The set of rank variables that ranks of this starter are to read.
std::string rank_variable_of(RankStarter starter);

// The file of a program on PATH; empty if there is none.
std::string find_on_path(const std::string& name, const VariableLookup& variable);

// This program's own file, which other hosts are to start as well.
std::string own_program();

// Throws Error{config} where mpirun or srun is not there, or refuses this user: nothing would start.
void require_starter(RankStarter starter, const VariableLookup& variable);

}  // namespace dettax
