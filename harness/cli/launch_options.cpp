#include "harness/cli/launch_options.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/comm/mpi_session.h"
#include "harness/launch/control_server.h"
#include "harness/launch/process_launcher.h"
#include "harness/launch/rank_pool.h"
#include "harness/launch/rank_variables.h"

namespace dettax {
namespace {

constexpr const char* kBatchStep = "4294967291";  // SLURM_BATCH_SCRIPT

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

void take(std::string& value, const std::string& given) {
  if (!given.empty()) value = given;
}

// Ranks of every case spread over this many nodes.
void spread(Suite& suite, double given) {
  const int nodes = static_cast<int>(given);
  if (nodes < 1 || static_cast<double>(nodes) != given) {
    throw Error(ErrorKind::usage, fmt::format("--nodes {}: a whole number from 1 up", given));
  }
  for (Case& planned : suite.cases) {
    const int ranks = planned.layout.ranks();
    if (ranks % nodes != 0) {
      throw Error(ErrorKind::usage,
                  fmt::format("--nodes {}: the {} ranks of {} do not divide evenly", nodes, ranks,
                              planned.id()));
    }
    planned.topology.nodes = nodes;
    planned.topology.ranks_per_node = ranks / nodes;
  }
}

}  // namespace

void declare_launch_options(Options& options, LaunchOptions& values) {
  options.choice("--launcher", launcher_words(), values.launcher,
                 "what starts the ranks: threads of one process, or processes");
  options.number("--nodes", values.nodes, "nodes that the ranks of every case are spread over",
                 "2");
  options.text("--nodelist", "LIST", values.nodelist, "hosts to use, e.g. gpu[01-04]");
  options.text("--exclude", "LIST", values.exclude, "hosts not to use");
  options.text("--hostfile", "FILE", values.hostfile, "hosts for mpirun: host slots=N a line");
  options.arguments("--launcher-args", "TEXT", values.arguments,
                    "further arguments of mpirun or srun, split at spaces");
  options.choice("--binding", binding_words(), values.binding,
                 "core: each compute thread on a core of its own");
  options.text("--control-address", "HOST", values.control_address,
               "this host, as the others reach it");
}

bool any_given(const LaunchOptions& options) {
  const std::string* const texts[] = {
      &options.launcher,  &options.hostfile, &options.nodelist,       &options.exclude,
      &options.arguments, &options.binding,  &options.control_address};
  return options.nodes.has_value() ||
         std::ranges::any_of(texts, [](const std::string* text) { return !text->empty(); });
}

void lay_over(Suite& suite, const LaunchOptions& options) {
  LaunchPlan& launch = suite.launch;
  take(launch.launcher, options.launcher);
  take(launch.hostfile, options.hostfile);
  take(launch.nodelist, options.nodelist);
  take(launch.exclude, options.exclude);
  take(launch.binding, options.binding);
  take(launch.control_address, options.control_address);
  if (!options.arguments.empty()) launch.arguments = words_of(options.arguments);
  if (options.nodes) spread(suite, *options.nodes);
  if (launch.launcher != "threads") return;
  const bool hosts = !launch.hostfile.empty() || !launch.nodelist.empty() ||
                     !launch.exclude.empty() || !launch.arguments.empty() ||
                     !launch.control_address.empty();
  if (hosts) {
    throw Error(ErrorKind::usage,
                "hosts and arguments need --launcher mpirun or srun; threads are of one process on "
                "this host");
  }
}

std::unique_ptr<Launcher> make_launcher(const LaunchPlan& plan, LaunchSettings settings) {
  settings.binding = find_binding(plan.binding);
  if (plan.launcher == "threads") return make_thread_launcher(std::move(settings));
  if (const std::string reason = why_no_mpi(); !reason.empty()) {
    throw Error(ErrorKind::unsupported, fmt::format("--launcher {}: {}", plan.launcher, reason));
  }
  ProcessSettings process;
  process.starter = plan.launcher == "srun" ? RankStarter::srun : RankStarter::mpirun;
  require_starter(process.starter, process_variables());
  if (!plan.control_address.empty() && !resolves(plan.control_address)) {
    throw Error(ErrorKind::config,
                fmt::format("--control-address {}: no such host is known here; give this host's "
                            "name or address, as the others reach it",
                            plan.control_address));
  }
  process.job = find_job({plan.hostfile, plan.nodelist, plan.exclude}, process_variables());
  if (process.job.cores_per_host == 0) process.job.cores_per_host = available_cores();
  process.arguments = plan.arguments;
  process.control_address = plan.control_address;
  return make_process_launcher(std::move(settings), std::move(process));
}

void check_launcher(const LaunchPlan& plan) { make_launcher(plan, {}); }

void require_single_start() {
  const VariableLookup all = process_variables();
  // A batch script is not one of its job's tasks, and has the variables of the first all the same.
  const std::string step = all("SLURM_STEP_ID").value_or(kBatchStep);
  const auto variable = [&](const std::string& name) -> std::optional<std::string> {
    if (name == "SLURM_PROCID" && step == kBatchStep) return std::nullopt;
    return all(name);
  };
  const auto rank = find_rank_variables(variable);
  if (!rank || rank->size == 1) return;
  throw Error(
      ErrorKind::usage,
      fmt::format("this is rank {} of {} ({}): start dettax once, it starts the ranks itself "
                  "with --launcher mpirun or srun",
                  rank->rank, rank->size, rank->source));
}

}  // namespace dettax
