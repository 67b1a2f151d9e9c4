#include "harness/launch/launch_command.h"

#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

std::string find_program(const std::string& name, const VariableLookup& variable) {
  if (std::string path = find_on_path(name, variable); !path.empty()) return path;
  throw Error(ErrorKind::config,
              fmt::format("--launcher {}: there is no {} on PATH; dettax doctor says what is there",
                          name, name));
}

// Open MPI's refusal is a page of text behind which nothing starts.
void check_root(const VariableLookup& variable) {
  const bool allowed = variable("OMPI_ALLOW_RUN_AS_ROOT").value_or("") == "1" &&
                       variable("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM").value_or("") == "1";
  if (::geteuid() != 0 || allowed) return;
  throw Error(ErrorKind::config,
              "--launcher mpirun: mpirun refuses to work as root; set OMPI_ALLOW_RUN_AS_ROOT=1 and "
              "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, or use another user");
}

bool oversubscribed(const GroupPlan& plan) {
  return plan.cores_per_host > 0 &&
         plan.topology.ranks_per_node * plan.topology.threads_per_rank > plan.cores_per_host;
}

void append(std::vector<std::string>& arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
}

void append_worker(std::vector<std::string>& arguments, const GroupPlan& plan) {
  append(arguments, plan.extra_arguments);
  arguments.push_back(plan.program);
  append(arguments, plan.worker_arguments);
}

// Ranks bind themselves, so that where they sit is known and recorded; mpirun is told to leave them
// alone.
ProcessSpec mpirun_command(const GroupPlan& plan, const VariableLookup& variable) {
  const Topology& topology = plan.topology;
  ProcessSpec command;
  command.program = find_program("mpirun", variable);
  command.environment = plan.environment;
  std::vector<std::string> hosts;
  for (const std::string& host : plan.hosts) {
    hosts.push_back(fmt::format("{}:{}", host, topology.ranks_per_node));
  }
  command.arguments = {"-np",
                       fmt::format("{}", topology.nodes * topology.ranks_per_node),
                       "--host",
                       join(hosts, ","),
                       "--map-by",
                       plan.dealt ? "node" : fmt::format("ppr:{}:node", topology.ranks_per_node),
                       "--bind-to",
                       "none",
                       "--oversubscribe",
                       "--tag-output"};
  // A rank that polls takes the core of the one it waits for.
  if (oversubscribed(plan)) append(command.arguments, {"--mca", "mpi_yield_when_idle", "1"});
  for (const auto& [name, value] : plan.environment) append(command.arguments, {"-x", name});
  append_worker(command.arguments, plan);
  // mpirun starts its daemons on other nodes by srun; several groups of a job run at once.
  if (variable("SLURM_JOB_ID")) command.environment["SLURM_OVERLAP"] = "1";
  return command;
}

ProcessSpec srun_command(const GroupPlan& plan, const VariableLookup& variable) {
  const Topology& topology = plan.topology;
  ProcessSpec command;
  command.program = find_program("srun", variable);
  command.environment = plan.environment;
  command.arguments = {fmt::format("--nodes={}", topology.nodes),
                       fmt::format("--ntasks={}", topology.nodes * topology.ranks_per_node),
                       fmt::format("--ntasks-per-node={}", topology.ranks_per_node),
                       "--nodelist=" + join(plan.hosts, ","),
                       // All arms of a case are alive at once, each a step of its own.
                       "--overlap", "--mpi=pmix", "--cpu-bind=none", "--kill-on-bad-exit=1",
                       "--export=ALL", "--label"};
  if (plan.dealt) command.arguments.emplace_back("--distribution=cyclic");
  command.arguments.push_back(oversubscribed(plan)
                                  ? "--overcommit"
                                  : fmt::format("--cpus-per-task={}", topology.threads_per_rank));
  append_worker(command.arguments, plan);
  return command;
}

}  // namespace

const char* to_string(RankStarter starter) {
  return starter == RankStarter::mpirun ? "mpirun" : "srun";
}

void require_starter(RankStarter starter, const VariableLookup& variable) {
  if (starter == RankStarter::mpirun) check_root(variable);
  if (starter == RankStarter::srun && !variable("SLURM_JOB_ID")) {
    throw Error(ErrorKind::config,
                "--launcher srun: there is no Slurm job here (SLURM_JOB_ID is not set); start "
                "dettax inside one, with sbatch or salloc");
  }
  find_program(to_string(starter), variable);
}

ProcessSpec rank_command(RankStarter starter, const GroupPlan& plan,
                         const VariableLookup& variable) {
  require_starter(starter, variable);
  return starter == RankStarter::mpirun ? mpirun_command(plan, variable)
                                        : srun_command(plan, variable);
}

std::string rank_variable_of(RankStarter starter) {
  return starter == RankStarter::mpirun ? "OMPI_COMM_WORLD_RANK" : "SLURM_PROCID";
}

std::string find_on_path(const std::string& name, const VariableLookup& variable) {
  for (const std::string& folder : split(variable("PATH").value_or("/usr/bin:/bin"), ':')) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    if (!folder.empty() && ::access(path.c_str(), X_OK) == 0) return path.string();
  }
  return "";
}

std::string own_program() {
  std::error_code fault;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", fault);
  if (fault) {
    throw Error(ErrorKind::infrastructure, "cannot find this program's file: " + fault.message());
  }
  return path.string();
}

}  // namespace dettax
