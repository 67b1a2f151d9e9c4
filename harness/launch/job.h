#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/launch/control_messages.h"
#include "harness/launch/rank_variables.h"
#include "harness/plan/case.h"

namespace dettax {

struct HostSlots {
  std::string host;
  int ranks = 0;  // that may run there; 0: not said
  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};

// Where the ranks of a run may go.
struct Job {
  std::string name;  // for messages: "Slurm job 17", "host file hosts.txt", "this host"
  std::vector<HostSlots> hosts;
  int cores_per_host = 0;     // that the job may use; 0: not said
  int devices_per_host = -1;  // -1: not said
};

// What a user narrows a job by; empty: all of it.
struct HostChoice {
  std::string hostfile;  // "host slots=N" a line, # begins a comment
  std::string nodelist, exclude;
};

// The Slurm job this process is part of, or the hosts of the file or list, or this host. Error{config}
// for a choice that leaves nothing, or that names hosts which are not in the job.
Job find_job(const HostChoice& choice, const VariableLookup& variable);

std::vector<HostSlots> parse_hostfile(const std::string& text, const std::string& name);

// What a case expects of the job and the job does not have, expected and found in one line; nothing
// if it fits.
std::optional<std::string> job_fault(const Case& planned, const Job& job);

// The hosts a case's ranks go to: the first that have room. For a case that fits.
std::vector<std::string> hosts_for(const Case& planned, const Job& job);

// The same against the ranks that were found running.
std::optional<std::string> placement_fault(const Case& planned, const std::vector<Hello>& ranks);

// A recorded variable that one host has otherwise than most: variable, hosts and values in one line.
std::optional<std::string> fleet_fault(const std::vector<Hello>& ranks);

}  // namespace dettax
